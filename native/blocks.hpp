// Noisy symbols in cache-line blocks: a key has one 512-bit block, and in it one cell for each level.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arrays.hpp"
#include "universal.hpp"

namespace sparsedp {

constexpr size_t block_bytes = 64, block_words = block_bytes / 8;
constexpr size_t most_levels = 4;

// Level j has rows[j] cells of bits[j] bits, the first at bit offsets[j] of the block.
struct BlockLayout {
    size_t levels;
    uint64_t blocks;
    uint32_t bits[most_levels], rows[most_levels], offsets[most_levels];
    uint32_t cells;  // of one block, all levels together
};

// shape: one row (bits, rows) for each level.
inline BlockLayout block_layout(Matrix<const uint32_t> shape, uint64_t blocks) {
    require(shape.columns == 2 && shape.rows >= 1 && shape.rows <= most_levels, "a shape has 1..4 levels");
    BlockLayout layout{shape.rows, blocks, {}, {}, {}, 0};
    uint64_t used = 0;
    for (size_t j = 0; j < layout.levels; ++j) {
        const uint32_t bits = shape[j][0], rows = shape[j][1];
        require(bits >= 1 && bits <= 8 && rows >= 1 && rows <= 512, "a level has 1..8 bits and 1..512 rows");
        layout.bits[j] = bits;
        layout.rows[j] = rows;
        layout.offsets[j] = static_cast<uint32_t>(used);
        layout.cells += rows;
        used += static_cast<uint64_t>(bits) * rows;
    }
    require(used <= 8 * block_bytes, "the levels must fit in a block of 512 bits");
    require(blocks >= 1, "there must be a block");
    return layout;
}

// Whether an array has exactly the words of so many blocks.
inline bool holds_blocks(Span<const uint64_t> array, uint64_t blocks) {
    return array.size % block_words == 0 && array.size / block_words == blocks;  // 8 x blocks may exceed 64 bits
}

// The finaliser of MurmurHash3: a bijection in which every input bit reaches every output bit.
inline uint64_t mix(uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

// Fingerprints are already uniform; integer keys of a domain are first mixed with two public seeds.
struct Placement {
    bool hashed;
    uint64_t seed0, seed1;

    uint64_t operator()(uint64_t id) const { return hashed ? id : mix(mix(id ^ seed0) + seed1); }
};

// The block is the high part of (placement x blocks), so a range of placements is a range of blocks.
inline uint64_t block_of(uint64_t placement, uint64_t blocks) {
    return static_cast<uint64_t>(static_cast<uint128>(placement) * blocks >> 64);
}

// Sixteen bits of a second mix choose the cell of each level.
inline uint64_t row_bits(uint64_t placement, uint64_t seed) { return mix(placement + seed); }

inline uint32_t row_of(uint64_t bits, size_t level, uint32_t rows) {
    return (static_cast<uint32_t>(bits >> (16 * level)) & 0xffff) * rows >> 16;
}

// The two bytes that hold a cell of at most eight bits, never beyond its block, where another cache line begins.
inline uint32_t read_cell(const uint8_t* block, uint32_t bit, uint32_t bits) {
    const uint32_t at = std::min(bit / 8, static_cast<uint32_t>(block_bytes - 2));
    uint16_t word;
    std::memcpy(&word, block + at, 2);
    return static_cast<uint32_t>(word) >> (bit - 8 * at) & ((1U << bits) - 1);
}

inline void write_cell(uint8_t* block, uint32_t bit, uint32_t symbol) {
    uint64_t word;
    std::memcpy(&word, block + bit / 8, 8);
    word |= static_cast<uint64_t>(symbol) << (bit % 8);
    std::memcpy(block + bit / 8, &word, 8);
}

// The symbols of a key, the first level in the lowest bits. Whoever knows the number of levels gets code without a
// loop.
template <size_t levels>
uint32_t read_pattern(const BlockLayout& layout, const uint8_t* block, uint64_t row_choice) {
    uint32_t pattern = 0, shift = 0;
    for (size_t j = 0; j < levels; ++j) {
        const uint32_t row = row_of(row_choice, j, layout.rows[j]);
        pattern |= read_cell(block, layout.offsets[j] + row * layout.bits[j], layout.bits[j]) << shift;
        shift += layout.bits[j];
    }
    return pattern;
}

// How many of 2^bits - 1 ascending thresholds are at or below the word. This always takes `bits` steps without a
// branch, so the time does not depend on the symbol.
inline uint32_t draw_symbol(const uint64_t* thresholds, uint32_t bits, uint64_t word) {
    uint32_t symbol = 0;
    for (uint32_t step = 1U << bits >> 1; step > 0; step >>= 1)
        symbol += step & -static_cast<uint32_t>(thresholds[symbol + step - 1] <= word);
    return symbol;
}

}  // namespace sparsedp
