// Uniform integers below bounds, from random words.
#pragma once
#include <cstddef>
#include <cstdint>

#include "arrays.hpp"
#include "universal.hpp"

namespace sparsedp {

// From two words for each bound: floor(word128 * bound / 2^128), off by a share of 2^-64.
class UniformsBelow {
   public:
    UniformsBelow(Span<const uint64_t> bounds, Span<const uint64_t> words) : bounds_(bounds), words_(words.data) {
        require(words.size == 2 * bounds.size, "two words for each bound");
    }

    size_t size() const { return bounds_.size; }
    uint64_t operator()(size_t i) const {
        const uint128 low = static_cast<uint128>(words_[2 * i]) * bounds_[i] >> 64;
        return static_cast<uint64_t>((static_cast<uint128>(words_[2 * i + 1]) * bounds_[i] + low) >> 64);
    }

   private:
    Span<const uint64_t> bounds_;
    const uint64_t* words_;
};

}  // namespace sparsedp
