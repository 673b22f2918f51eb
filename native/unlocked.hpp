// Kernels run without the interpreter lock, even while the interpreter shuts down.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <thread>

// At exit, Python ends a daemon thread when it next asks for the lock; in a destructor that would end the process.
// So at exit we wait for the calls in progress, and later calls keep the lock.
class Unlocked {
   public:
    Unlocked() {
        under_way += 1;
        if (!exiting) state_ = PyEval_SaveThread();
    }
    ~Unlocked() {
        if (state_) PyEval_RestoreThread(state_);
        under_way -= 1;
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

    static void wait_at_exit() {
        exiting = true;
        nanobind::gil_scoped_release others_may_finish;
        while (under_way > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

    // A forked child has none of the other threads of its parent.
    static void forget_after_fork() { under_way = 0; }

   private:
    static inline bool exiting = false;  // written and read with the lock held
    static inline std::atomic<size_t> under_way{0};

    PyThreadState* state_ = nullptr;
};

inline void register_exit() {
    namespace nb = nanobind;
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(&Unlocked::wait_at_exit));
    nb::module_ os = nb::module_::import_("os");
    if (nb::hasattr(os, "register_at_fork"))
        os.attr("register_at_fork")(nb::arg("after_in_child") = nb::cpp_function(&Unlocked::forget_after_fork));
    // An object that is still in use when the interpreter ends is not a leak: for example, a DuckDB connection whose
    // function looks up keys is never freed. Nanobind would print a page about it.
    nb::set_leak_warnings(false);
}
