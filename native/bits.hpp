// How many bits a number has.
#pragma once
#include <cstdint>

namespace sparsedp {

inline unsigned bit_length(uint64_t x) { return x == 0 ? 0 : 64 - static_cast<unsigned>(__builtin_clzll(x)); }

}  // namespace sparsedp
