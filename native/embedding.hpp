// The paper's bit array: ALP1-projection (set bits) and ALP1-estimator (average of the maximisers).
#pragma once
#include <cstddef>
#include <cstdint>

#include "universal.hpp"

namespace sparsedp {

// Level b of the array is one run of `words_per_level` words; `rows` bits of it are used.
struct ColumnLayout {
    const RowFunction* functions;
    size_t levels;
    uint64_t rows;
    size_t words_per_level;

    uint64_t bit(size_t level, uint64_t id) const {
        return level * words_per_level * 64 + functions[level].row(id, rows);
    }
};

// Step (2) of the projection: bit (h_b(i), b) is set for b = 1..y_i.
inline void set_unary(const ColumnLayout& layout, uint64_t* array, uint64_t id, uint64_t height) {
    for (size_t level = 0; level < height; ++level) {
        const uint64_t at = layout.bit(level, id);
        array[at / 64] |= uint64_t{1} << (at % 64);
    }
}

// The average of all n in 0..m that maximise f(n) = sum over a <= n of (2 bit_a - 1), n = 0 included.
class MaximiserAverage {
   public:
    void step(bool bit) {
        ++position;
        walk += bit ? 1 : -1;
        if (walk > best) {
            best = walk;
            sum = 0;
            count = 0;
        }
        if (walk == best) {
            sum += position;
            ++count;
        }
    }
    double value() const { return static_cast<double>(sum) / static_cast<double>(count); }

   private:
    int64_t walk = 0, best = 0;
    uint64_t position = 0, sum = 0, count = 1;
};

inline double estimate_unary(const ColumnLayout& layout, const uint64_t* array, uint64_t id) {
    MaximiserAverage average;
    for (size_t level = 0; level < layout.levels; ++level) {
        const uint64_t at = layout.bit(level, id);
        average.step(array[at / 64] >> (at % 64) & 1);
    }
    return average.value();
}

}  // namespace sparsedp
