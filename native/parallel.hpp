// Ranges of independent work, on as many threads as this process may use.
#pragma once
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace sparsedp {

// SPARSEDP_THREADS if it is a positive number, else the CPUs that this process may run on.
inline size_t thread_count() {
    if (const char* wanted = std::getenv("SPARSEDP_THREADS")) {
        const long threads = std::strtol(wanted, nullptr, 10);
        if (threads >= 1) return static_cast<size_t>(std::min(threads, 256L));
    }
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
#endif
    return std::max(1u, std::thread::hardware_concurrency());
}

// Calls body(begin, end) on disjoint ranges of at least `grain` that cover [0, length). No thread outlives the call,
// so a fork between calls is safe; an exception of any range is thrown here, after all have ended.
template <typename Body>
void parallel_for(size_t length, size_t grain, Body body) {
    const size_t ranges = length <= grain ? 1 : std::min(thread_count(), length / grain);
    if (ranges <= 1) {
        body(size_t{0}, length);
        return;
    }
    const auto border = [=](size_t r) { return length / ranges * r + std::min(r, length % ranges); };
    std::vector<std::exception_ptr> failures(ranges);
    const auto run = [&](size_t r) {
        try {
            body(border(r), border(r + 1));
        } catch (...) {
            failures[r] = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    threads.reserve(ranges - 1);
    for (size_t r = 1; r < ranges; ++r) {
        try {
            threads.emplace_back(run, r);
        } catch (const std::system_error&) {  // no more threads: do it here
            run(r);
        }
    }
    run(0);
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures)
        if (failure) std::rethrow_exception(failure);
}

}  // namespace sparsedp
