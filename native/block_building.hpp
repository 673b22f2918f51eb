// Blocks built from heights and random words, and the counts of their symbols.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "arrays.hpp"
#include "blocks.hpp"
#include "memory.hpp"
#include "parallel.hpp"

namespace sparsedp {

// The laws of the symbols: for each level its number of heights, then one row of thresholds for each height.
class SymbolLaws {
   public:
    SymbolLaws(const BlockLayout& layout, Span<const uint64_t> thresholds, Matrix<const uint32_t> heights)
        : thresholds_(thresholds.data) {
        size_t tallest[most_levels] = {};
        for (size_t i = 0; i < heights.rows; ++i)
            for (size_t j = 0; j < layout.levels; ++j) tallest[j] = std::max<size_t>(tallest[j], heights[i][j]);
        size_t used = 0;
        for (size_t j = 0; j < layout.levels; ++j) {
            require(used < thresholds.size && thresholds[used] > tallest[j], "a height has no law");
            widths_[j] = (size_t{1} << layout.bits[j]) - 1;
            starts_[j] = used + 1;
            require(thresholds[used] <= (thresholds.size - starts_[j]) / widths_[j], "thresholds end too early");
            used = starts_[j] + static_cast<size_t>(thresholds[used]) * widths_[j];
        }
    }

    const uint64_t* operator()(size_t level, uint32_t height) const {
        return thresholds_ + starts_[level] + height * widths_[level];
    }

   private:
    const uint64_t* thresholds_;
    size_t starts_[most_levels], widths_[most_levels];
};

// Blocks first..first + count of the release, into `array`: the cell of a level holds a noisy symbol of the largest
// height among its keys. `heights` has one row of levels for each key.
inline void build_blocks(const BlockLayout& layout, uint64_t first, uint64_t count, Span<const uint64_t> placed,
                         uint64_t row_seed, Matrix<const uint32_t> heights, Span<const uint64_t> thresholds,
                         Span<const uint64_t> words, Span<uint64_t> array) {
    require(count <= layout.blocks && first <= layout.blocks - count && holds_blocks({array.data, array.size}, count),
            "the array must hold the blocks");
    require(heights.rows == placed.size && heights.columns == layout.levels, "a height for each key and level");
    require(words.size == count * layout.cells, "one random word for each cell");
    const SymbolLaws laws(layout, thresholds, heights);
    for (size_t i = 0; i < placed.size; ++i) {
        const uint64_t block = block_of(placed[i], layout.blocks);
        require(block >= first && block - first < count, "a key lies outside of the blocks");
    }
    const auto tallest = std::make_unique<uint32_t[]>(count * layout.cells);
    for (size_t i = 0; i < placed.size; ++i) {
        uint32_t* cell = tallest.get() + (block_of(placed[i], layout.blocks) - first) * layout.cells;
        const uint64_t choice = row_bits(placed[i], row_seed);
        for (size_t j = 0; j < layout.levels; ++j) {
            uint32_t& height = cell[row_of(choice, j, layout.rows[j])];
            height = std::max(height, heights[i][j]);
            cell += layout.rows[j];
        }
    }
    auto* out = reinterpret_cast<uint8_t*>(array.data);
    for (uint64_t block = 0; block < count; ++block) {
        uint8_t built[block_bytes + 8] = {};  // write_cell reads and writes eight bytes, even at the last bit
        size_t cell = block * layout.cells;
        for (size_t j = 0; j < layout.levels; ++j)
            for (uint32_t row = 0; row < layout.rows[j]; ++row, ++cell) {
                const uint32_t symbol = draw_symbol(laws(j, tallest[cell]), layout.bits[j], words[cell]);
                write_cell(built, layout.offsets[j] + row * layout.bits[j], symbol);
            }
        std::memcpy(out + block * block_bytes, built, block_bytes);
    }
}

// How often each symbol occurs, level after level.
class SymbolCounts {
   public:
    SymbolCounts(const BlockLayout& layout, Span<const uint64_t> array) : layout_(layout), array_(array.data) {
        require(holds_blocks(array, layout.blocks), "the array must hold the blocks");
        for (size_t j = 0; j < layout.levels; ++j) {
            starts_[j] = size_;
            size_ += size_t{1} << layout.bits[j];
        }
    }

    size_t size() const { return size_; }

    void count(uint64_t* out) const {
        std::fill_n(out, size_, 0);
        const auto* bytes = reinterpret_cast<const uint8_t*>(array_);
        std::mutex guard;
        parallel_for(layout_.blocks, size_t{1} << 10, [&](size_t begin, size_t end) {
            std::vector<uint64_t> counts(size_, 0);
            for (size_t block = begin; block < end; ++block)
                for (size_t j = 0; j < layout_.levels; ++j)
                    for (uint32_t row = 0; row < layout_.rows[j]; ++row)
                        ++counts[starts_[j] + read_cell(bytes + block * block_bytes,
                                                        layout_.offsets[j] + row * layout_.bits[j], layout_.bits[j])];
            const std::scoped_lock lock(guard);
            for (size_t s = 0; s < size_; ++s) out[s] += counts[s];
        });
    }

   private:
    BlockLayout layout_;
    const uint64_t* array_;
    size_t starts_[most_levels], size_ = 0;
};

}  // namespace sparsedp
