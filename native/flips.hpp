// Words whose bits are independent Bernoulli(numerator / 2^digits), from `digits` uniform words each.
#pragma once
#include <cstddef>
#include <cstdint>

namespace sparsedp {

// Compare a uniform fraction with the numerator's binary digits, 64 bits at a time, from the least significant
// digit up: below = (random < digits so far). A numerator's digit 1 makes "random bit 0" decide below, a digit 0
// makes "random bit 1" decide not below; otherwise the less significant digits decide.
inline uint64_t bernoulli_word(const uint64_t* random, uint64_t numerator, unsigned digits) {
    uint64_t below = 0;
    for (unsigned i = 0; i < digits; ++i) below = (numerator >> i & 1) ? (~random[i] | below) : (~random[i] & below);
    return below;
}

}  // namespace sparsedp
