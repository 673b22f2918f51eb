// Kernels run without the interpreter lock, also while the interpreter ends.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <thread>

// Python ends a daemon thread where it next asks for the lock, and in a destructor that would end the whole process.
// So at exit the calls that are under way are waited for, and later ones keep the lock.
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

    // A forked child has none of its parent's other threads.
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
    // What something else still holds when the interpreter ends is no leak: a DuckDB connection, for example, whose
    // function looks keys up and is never freed. Nanobind would print a page about it.
    nb::set_leak_warnings(false);
}
