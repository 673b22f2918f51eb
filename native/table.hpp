// Where a key stands in a sorted table of ids, or -1.
#pragma once
#include <cstddef>
#include <cstdint>

namespace sparsedp {

inline int64_t find_sorted(const uint64_t* ids, size_t count, uint64_t id) {
    if (count == 0) return -1;
    size_t low = 0;
    for (size_t length = count; length > 1;) {
        const size_t half = length / 2;
        low += ids[low + half] <= id ? half : 0;
        length -= half;
    }
    return ids[low] == id ? static_cast<int64_t>(low) : -1;
}

}  // namespace sparsedp
