// Memory for large arrays with random access, in large pages if the system has them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace sparsedp {

inline void advise_large_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
    constexpr uintptr_t page = 4096;
    if (bytes < size_t{1} << 22) return;
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t begin = (at + page - 1) / page * page, end = (at + bytes) / page * page;
    madvise(static_cast<char*>(memory) + (begin - at), end - begin, MADV_HUGEPAGE);  // only a hint: it may fail
#endif
}

// An uninitialised array, to be written in full.
template <typename T>
std::unique_ptr<T[]> uninitialised(size_t length) {
    std::unique_ptr<T[]> array(new T[length]);
    advise_large_pages(array.get(), length * sizeof(T));
    return array;
}

}  // namespace sparsedp
