// Words whose bits are independent Bernoulli(numerator / 2^digits), from `digits` uniform words each.
#pragma once
#include <cstddef>
#include <cstdint>

#include "arrays.hpp"

namespace sparsedp {

// Compare a uniform fraction with the numerator's binary digits, 64 bits at a time, from the least significant
// digit up: below = (random < digits so far). A numerator's digit 1 makes "random bit 0" decide below, a digit 0
// makes "random bit 1" decide not below; otherwise the less significant digits decide.
inline uint64_t bernoulli_word(const uint64_t* random, uint64_t numerator, unsigned digits) {
    uint64_t below = 0;
    for (unsigned i = 0; i < digits; ++i) below = (numerator >> i & 1) ? (~random[i] | below) : (~random[i] & below);
    return below;
}

// Flips every bit of the array with that probability.
inline void flip(Span<uint64_t> array, Span<const uint64_t> words, uint64_t numerator, unsigned digits) {
    require(digits >= 1 && digits <= 63 && numerator >> digits == 0, "numerator must be below 2^digits");
    require(words.size == array.size * digits, "words must be digits for each word of the array");
    for (size_t i = 0; i < array.size; ++i) array[i] ^= bernoulli_word(words.data + i * digits, numerator, digits);
}

}  // namespace sparsedp
