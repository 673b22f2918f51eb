// Random rounding in integer arithmetic, of reals to the grid and of counts to levels.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "universal.hpp"

namespace sparsedp {

// A non-negative number as whole cells and the exact 64-bit floor of its fraction.
struct FixedPoint {
    uint64_t whole;
    uint64_t fraction;
    bool overflow;
};

// |value| / step for |value| < 2^63 and step = numerator / denominator, both below 2^53, without any rounding before
// the floor at 2^-64: value = m 2^-k with an integer m, so value / step = (m denominator / numerator) 2^-k.
inline FixedPoint divide_by_step(double value, uint64_t numerator, uint64_t denominator) {
    int exponent;
    const double mantissa = std::frexp(std::fabs(value), &exponent);
    const uint64_t m = static_cast<uint64_t>(std::ldexp(mantissa, 53));
    int k = 53 - exponent;
    uint128 product = static_cast<uint128>(m) * denominator;
    if (k < 0) {
        product <<= -k;
        k = 0;
    }
    const uint128 quotient = product / numerator;
    if (k >= 64) {
        const uint128 whole = k < 128 ? quotient >> k : 0;
        const uint64_t fraction = k < 192 ? static_cast<uint64_t>(quotient >> (k - 64)) : 0;
        return {static_cast<uint64_t>(whole), fraction, false};
    }
    const uint64_t remainder = static_cast<uint64_t>(product % numerator);
    const uint64_t below = static_cast<uint64_t>((static_cast<uint128>(remainder) << 64) / numerator);
    const uint128 whole = quotient >> k;
    const uint64_t fraction = k == 0 ? below : (static_cast<uint64_t>(quotient) << (64 - k) | below >> k);
    return {static_cast<uint64_t>(whole), fraction, (whole >> 63) != 0};
}

// The sum of values, in cells, rounded at random to a neighbouring multiple of the step and cut to ±limit: up from its
// floor if the word is below the fraction. Partial sums are exact: fewer than 2^63 terms below 2^64 fit in 128 bits.
//
// The cut comes after the coin. It is then a map of integers that never increases a distance, applied to a vector
// covered by Lemma 2 of docs/privacy.md. Before the coin, it would leave the fraction of a sum far below the limit to
// decide between two cells, and so tell apart sums that are both cut, or lie close together.
inline int64_t round_sum(const double* values, size_t count, uint64_t numerator, uint64_t denominator, uint64_t word,
                         int64_t limit) {
    __int128 whole = 0, fraction = 0;  // in units of 2^-64 cells
    for (size_t i = 0; i < count; ++i) {
        const FixedPoint cells = divide_by_step(values[i], numerator, denominator);
        whole += values[i] < 0 ? -static_cast<__int128>(cells.whole) : static_cast<__int128>(cells.whole);
        fraction += values[i] < 0 ? -static_cast<__int128>(cells.fraction) : static_cast<__int128>(cells.fraction);
    }
    whole += (fraction >> 64) + (word < static_cast<uint64_t>(fraction) ? 1 : 0);  // >> rounds down, to the floor
    return static_cast<int64_t>(std::clamp<__int128>(whole, -limit, limit));
}

// RandRound(count * slope) cut at `levels`, slope = slope_whole + slope_fraction / 2^64 (the paper's epsilon / alpha).
// `cap` is a count whose position is at least `levels`, so that the product stays below 2^128.
inline uint64_t unary_height(uint64_t count, uint64_t cap, uint64_t slope_whole, uint64_t slope_fraction,
                             uint64_t levels, uint64_t word) {
    const uint64_t c = count < cap ? count : cap;
    const uint128 position =
        (static_cast<uint128>(c) * slope_whole << 64) + static_cast<uint128>(c) * slope_fraction;
    const uint64_t height =
        static_cast<uint64_t>(position >> 64) + (word < static_cast<uint64_t>(position) ? 1 : 0);
    return height < levels ? height : levels;
}

}  // namespace sparsedp
