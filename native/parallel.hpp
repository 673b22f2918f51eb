// Threads for one call: kernels stay stateless, and results never depend on the number of threads.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>
#ifdef __linux__
#include <sched.h>
#endif

namespace sparsedp {

// SPARSEDP_THREADS, or the number of CPUs that this process may use.
inline size_t thread_count() {
    if (const char* wanted = std::getenv("SPARSEDP_THREADS")) {
        char* end;
        const long count = std::strtol(wanted, &end, 10);
        while (*end == ' ') ++end;
        if (count >= 1 && *end == '\0') return static_cast<size_t>(std::min(count, 1024L));
    }
#ifdef __linux__
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) == 0) return static_cast<size_t>(std::max(1, CPU_COUNT(&usable)));
#endif
    return std::max<size_t>(1, std::thread::hardware_concurrency());
}

// Calls body(begin, end) on disjoint ranges that cover [0, length), in several threads if length > grain. The first
// exception is rethrown here; no thread outlives the call.
template <typename Body>
void parallel_for(size_t length, size_t grain, Body body) {
    grain = std::max<size_t>(1, grain);
    const size_t threads = length > grain ? std::min(thread_count(), (length - 1) / grain + 1) : 1;
    if (threads <= 1) {
        if (length > 0) body(size_t{0}, length);
        return;
    }
    // More pieces than threads, so that other threads make up for a slow one.
    const size_t piece = std::max(grain, length / (8 * threads));
    std::atomic<size_t> next{0};
    std::mutex guard;
    std::exception_ptr error;
    const auto work = [&] {
        try {
            for (size_t begin; (begin = next.fetch_add(piece)) < length;) body(begin, std::min(begin + piece, length));
        } catch (...) {
            next = length;
            const std::scoped_lock lock(guard);
            if (!error) error = std::current_exception();
        }
    };
    std::vector<std::thread> helpers;
    helpers.reserve(threads - 1);
    try {
        while (helpers.size() + 1 < threads) helpers.emplace_back(work);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): nothing is left to be done
        // No more threads, or no memory for one, are available: the existing ones do all of the work.
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    if (error) std::rethrow_exception(error);
}

}  // namespace sparsedp
