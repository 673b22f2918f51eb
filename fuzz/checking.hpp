// What the targets of kernels.cpp share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "arrays.hpp"

namespace sparsedp::fuzz {

inline void check(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

template <typename T>
Span<const T> span(const std::vector<T>& elements) {
    return {elements.data(), elements.size()};
}

// Copies of exactly the size, so that a read beyond the end is seen.
template <typename T>
std::vector<T> elements(const std::vector<uint8_t>& bytes) {
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
}

// Whether the kernel took its arrays, and did not refuse them.
template <typename Work>
bool is_taken(Work work) {
    try {
        work();
        return true;
    } catch (const std::invalid_argument&) {
        return false;
    }
}

}  // namespace sparsedp::fuzz
