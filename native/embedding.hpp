// The paper's bit array: ALP1-projection (set bits) and ALP1-estimator (average of the maximisers).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arrays.hpp"
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

inline ColumnLayout column_layout(const std::vector<RowFunction>& functions, uint64_t rows, size_t array_size) {
    require_rows(rows);
    const size_t words_per_level = static_cast<size_t>((rows + 63) / 64);
    require(array_size == functions.size() * words_per_level,
            "the array must have ceil(rows / 64) words for each level");
    return {functions.data(), functions.size(), rows, words_per_level};
}

// Step (2) of the projection: bit (h_b(i), b) is set for b = 1..y_i.
inline void set_unary(const ColumnLayout& layout, uint64_t* array, uint64_t id, uint64_t height) {
    for (size_t level = 0; level < height; ++level) {
        const uint64_t at = layout.bit(level, id);
        array[at / 64] |= uint64_t{1} << (at % 64);
    }
}

inline void embed_columns(Span<uint64_t> array, Matrix<const uint64_t> coefficients, uint64_t rows,
                          Span<const uint64_t> ids, Span<const uint64_t> heights) {
    require(ids.size == heights.size, "one height for each id");
    const std::vector<RowFunction> functions = row_functions(coefficients);
    const ColumnLayout layout = column_layout(functions, rows, array.size);
    for (size_t i = 0; i < ids.size; ++i) require(heights[i] <= layout.levels, "a height exceeds the number of levels");
    for (size_t i = 0; i < ids.size; ++i) set_unary(layout, array.data, ids[i], heights[i]);
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
    int64_t height() const { return walk; }
    // Skips 64 steps that are known to reach no maximum.
    void skip(int64_t climbed) {
        position += 64;
        walk += climbed;
    }
    double value() const { return static_cast<double>(sum) / static_cast<double>(count); }

   private:
    int64_t walk = 0, best = 0;
    uint64_t position = 0, sum = 0, count = 1;
};

// The same for consecutive bits, lowest first. Only words that come within 64 steps of the largest partial sum at a
// word's end can hold a maximiser; for all others it is enough to count the ones.
inline double estimate_words(const uint64_t* words, size_t levels) {
    const size_t whole = levels / 64;
    int64_t walk = 0, best = 0;
    for (size_t w = 0; w < whole; ++w) {
        walk += 2 * __builtin_popcountll(words[w]) - 64;
        best = std::max(best, walk);
    }
    MaximiserAverage average;
    for (size_t w = 0; w < whole; ++w) {
        if (average.height() + 64 < best)
            average.skip(2 * __builtin_popcountll(words[w]) - 64);
        else
            for (size_t step = 0; step < 64; ++step) average.step(words[w] >> step & 1);
    }
    for (size_t step = 0; step < levels % 64; ++step) average.step(words[whole] >> step & 1);
    return average.value();
}

// Estimates of explicit bits, one row of words for each: for simulations.
class WordEstimates {
   public:
    WordEstimates(Matrix<const uint64_t> words, size_t levels) : words_(words), levels_(levels) {
        require(levels <= 64 * words.columns, "more levels than bits");
    }

    size_t size() const { return words_.rows; }
    double operator()(size_t i) const { return estimate_words(words_[i], levels_); }

   private:
    Matrix<const uint64_t> words_;
    size_t levels_;
};

inline double estimate_unary(const ColumnLayout& layout, const uint64_t* array, uint64_t id) {
    MaximiserAverage average;
    for (size_t level = 0; level < layout.levels; ++level) {
        const uint64_t at = layout.bit(level, id);
        average.step(array[at / 64] >> (at % 64) & 1);
    }
    return average.value();
}

// Estimates of ids; the functions must outlive it.
class ColumnEstimates {
   public:
    ColumnEstimates(const std::vector<RowFunction>& functions, uint64_t rows, Span<const uint64_t> array,
                    Span<const uint64_t> ids)
        : layout_(column_layout(functions, rows, array.size)), array_(array.data), ids_(ids) {}

    size_t size() const { return ids_.size; }
    double operator()(size_t i) const { return estimate_unary(layout_, array_, ids_[i]); }

   private:
    ColumnLayout layout_;
    const uint64_t* array_;
    Span<const uint64_t> ids_;
};

}  // namespace sparsedp
