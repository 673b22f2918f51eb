// Random rounding in integer arithmetic, of reals to the grid and of counts to levels.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "arrays.hpp"
#include "universal.hpp"

namespace sparsedp {

// A non-negative number as whole cells and the exact 64-bit floor of its fraction.
struct FixedPoint {
    uint64_t whole;
    uint64_t fraction;
    bool overflow;
};

inline void require_step(uint64_t numerator, uint64_t denominator) {
    require(numerator >= 1 && numerator >> 53 == 0 && denominator >= 1 && denominator >> 53 == 0,
            "numerator and denominator of the step must be in 1..2^53 - 1");
}

// Whether divide_by_step accepts the value; false for NaN.
inline bool is_below_limit(double value) { return std::fabs(value) < 9223372036854775808.0; }

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

// Random rounding of reals to signed multiples of the step, up if the word is below the fraction. Returns the position
// of the first value whose cells do not fit in 63 bits, or otherwise the number of values.
inline size_t round_to_grid(Span<const double> values, uint64_t numerator, uint64_t denominator,
                            Span<const uint64_t> words, int64_t* out) {
    require(values.size == words.size, "one random word for each value");
    require_step(numerator, denominator);
    for (size_t i = 0; i < values.size; ++i) {
        if (!is_below_limit(values[i])) return i;
        const FixedPoint cells = divide_by_step(values[i], numerator, denominator);
        const uint64_t rounded = cells.whole + (words[i] < cells.fraction ? 1 : 0);
        if (cells.overflow || rounded >> 63) return i;
        const int64_t magnitude = static_cast<int64_t>(rounded);
        out[i] = values[i] < 0 ? -magnitude : magnitude;
    }
    return values.size;
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

// The sums of the runs of values that begin at `starts`.
class RoundedSums {
   public:
    RoundedSums(Span<const double> values, Span<const int64_t> starts, uint64_t numerator, uint64_t denominator,
                Span<const uint64_t> words, int64_t limit)
        : values_(values),
          starts_(starts),
          numerator_(numerator),
          denominator_(denominator),
          words_(words.data),
          limit_(limit) {
        require(starts.size == words.size, "one random word for each run");
        require_step(numerator, denominator);
        require(limit >= 0, "a limit is not negative");
        for (size_t i = 0; i < starts.size; ++i)
            require(starts[i] >= 0 && static_cast<size_t>(starts[i]) <= end(i),
                    "runs begin one after the other, inside the values");
        for (size_t i = 0; i < values.size; ++i) {
            require(is_below_limit(values[i]), "a value is 2^63 or more");
            require(!divide_by_step(values[i], numerator, denominator).overflow, "a value is 2^63 steps or more");
        }
    }

    size_t size() const { return starts_.size; }
    int64_t operator()(size_t i) const {
        const size_t begin = static_cast<size_t>(starts_[i]);
        return round_sum(values_.data + begin, end(i) - begin, numerator_, denominator_, words_[i], limit_);
    }

   private:
    size_t end(size_t i) const { return i + 1 < starts_.size ? static_cast<size_t>(starts_[i + 1]) : values_.size; }

    Span<const double> values_;
    Span<const int64_t> starts_;
    uint64_t numerator_, denominator_;
    const uint64_t* words_;
    int64_t limit_;
};

// RandRound(count * slope) cut at `levels`, slope = slope_whole + slope_fraction / 2^64 (the paper's epsilon / alpha).
// `cap` is a count whose position is at least `levels`, so that the product stays below 2^128.
inline uint64_t unary_height(uint64_t count, uint64_t cap, uint64_t slope_whole, uint64_t slope_fraction,
                             uint64_t levels, uint64_t word) {
    const uint64_t c = count < cap ? count : cap;
    const uint128 position = (static_cast<uint128>(c) * slope_whole << 64) + static_cast<uint128>(c) * slope_fraction;
    const uint64_t height = static_cast<uint64_t>(position >> 64) + (word < static_cast<uint64_t>(position) ? 1 : 0);
    return height < levels ? height : levels;
}

class UnaryHeights {
   public:
    UnaryHeights(Span<const uint64_t> counts, uint64_t cap, uint64_t slope_whole, uint64_t slope_fraction,
                 uint64_t levels, Span<const uint64_t> words)
        : counts_(counts),
          cap_(cap),
          slope_whole_(slope_whole),
          slope_fraction_(slope_fraction),
          levels_(levels),
          words_(words.data) {
        require(counts.size == words.size, "one random word for each count");
    }

    size_t size() const { return counts_.size; }
    uint64_t operator()(size_t i) const {
        return unary_height(counts_[i], cap_, slope_whole_, slope_fraction_, levels_, words_[i]);
    }

   private:
    Span<const uint64_t> counts_;
    uint64_t cap_, slope_whole_, slope_fraction_, levels_;
    const uint64_t* words_;
};

// floor(2^64 part / step) for parts below the step.
class Fractions {
   public:
    Fractions(Span<const uint64_t> parts, uint64_t step) : parts_(parts), step_(step) {
        for (size_t i = 0; i < parts.size; ++i) require(parts[i] < step, "a part must be below the step");
    }

    size_t size() const { return parts_.size; }
    uint64_t operator()(size_t i) const {
        return static_cast<uint64_t>((static_cast<uint128>(parts_[i]) << 64) / step_);
    }

   private:
    Span<const uint64_t> parts_;
    uint64_t step_;
};

}  // namespace sparsedp
