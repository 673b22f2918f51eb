// Integer noise from random words: every decision is "word < threshold".
#pragma once
#include <cstddef>
#include <cstdint>

#include "arrays.hpp"

namespace sparsedp {

// The binary digits of a geometric variable are independent (docs/privacy.md, "Geometric noise"):
// digit i of draw k is 1 iff words[k * stride + i] < thresholds[i]. Digits beyond 63 only mean "at least 2^64".
inline uint64_t geometric_low_digits(const uint64_t* words, const uint64_t* thresholds, size_t digits) {
    uint64_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
        const uint64_t digit = words[i] < thresholds[i];
        if (i < 64)
            value |= digit << i;
        else if (digit)
            return UINT64_MAX;
    }
    return value;
}

// Sign, zero test and magnitude of a two-sided geometric variable, without the rare high part.
// words[0]: zero test; words[1]: sign in its lowest bit; words[2..]: the digits of |noise| - 1.
inline int64_t two_sided_low_digits(const uint64_t* words, uint64_t zero, const uint64_t* thresholds, size_t digits) {
    const int64_t magnitude = 1 + static_cast<int64_t>(geometric_low_digits(words + 2, thresholds, digits));
    const int64_t nonzero = !(words[0] < zero);
    const int64_t sign = (words[1] & 1) ? -1 : 1;
    return nonzero * sign * magnitude;
}

// Draws of the one kind, from a word for each digit.
class GeometricDraws {
   public:
    GeometricDraws(Span<const uint64_t> words, Span<const uint64_t> thresholds)
        : words_(words), thresholds_(thresholds) {
        require(thresholds.size > 0 && words.size % thresholds.size == 0,
                "words must be a multiple of the number of digits");
    }

    size_t size() const { return words_.size / thresholds_.size; }
    uint64_t operator()(size_t i) const {
        return geometric_low_digits(words_.data + i * thresholds_.size, thresholds_.data, thresholds_.size);
    }

   private:
    Span<const uint64_t> words_, thresholds_;
};

// Draws of the other kind, from two words more.
class TwoSidedDraws {
   public:
    TwoSidedDraws(Span<const uint64_t> words, uint64_t zero, Span<const uint64_t> thresholds)
        : words_(words), zero_(zero), thresholds_(thresholds) {
        require(thresholds.size < 63, "a two-sided magnitude has fewer than 63 digits");
        require(words.size % stride() == 0, "words must be a multiple of the number of digits plus two");
    }

    size_t size() const { return words_.size / stride(); }
    int64_t operator()(size_t i) const {
        return two_sided_low_digits(words_.data + i * stride(), zero_, thresholds_.data, thresholds_.size);
    }

   private:
    size_t stride() const { return thresholds_.size + 2; }

    Span<const uint64_t> words_;
    uint64_t zero_;
    Span<const uint64_t> thresholds_;
};

}  // namespace sparsedp
