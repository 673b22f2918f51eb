// For bindings: kernels run without the interpreter lock, even while the interpreter shuts down.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

namespace sparsedp::bindings {

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

}  // namespace sparsedp::bindings
