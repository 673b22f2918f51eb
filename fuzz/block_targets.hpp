// Blocks are built, counted and read as a plain version does it, cell for cell.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "block_building.hpp"
#include "blocks.hpp"
#include "checking.hpp"
#include "key_batch.hpp"
#include "readers.hpp"
#include "sources.hpp"
#include "table.hpp"

namespace sparsedp::fuzz {

inline void try_cells(uint64_t first, uint64_t second) {
    const uint32_t bits = 1 + static_cast<uint32_t>(first >> 32) % 8, bit = static_cast<uint32_t>(first) % (513 - bits);
    const uint32_t symbol = static_cast<uint32_t>(second) & ((1U << bits) - 1);
    std::vector<uint8_t> block(block_bytes, 0);
    // Written as in a build, which has room behind the last block.
    std::vector<uint8_t> roomy(block_bytes + 8, 0);
    write_cell(roomy.data(), bit, symbol);
    std::copy(roomy.begin(), roomy.begin() + block_bytes, block.begin());
    check(read_cell(block.data(), bit, bits) == symbol, "a cell is read unlike it was written");
}

// A release of two levels in `parts` parts, with all that decides about it derived from a seed and the ids.
class PlainBlocks {
   public:
    static constexpr uint32_t tallest = 3;

    PlainBlocks(const std::vector<uint64_t>& ids, uint64_t seed, size_t parts)
        : shape{1 + static_cast<uint32_t>(seed % 4), 1 + static_cast<uint32_t>(seed >> 8) % 64,
                1 + static_cast<uint32_t>(seed >> 16) % 4, 1 + static_cast<uint32_t>(seed >> 24) % 64},
          blocks(parts * (1 + (seed >> 32) % 5)),
          row_seed(mix(seed)),
          placed(ids) {
        std::sort(placed.begin(), placed.end());
        for (size_t i = 0; i < 2 * placed.size(); ++i) heights.push_back(mix(seed + i) % tallest);
        for (size_t level = 0; level < 2; ++level) {
            thresholds.push_back(tallest);
            for (size_t height = 0; height < tallest; ++height) {
                std::vector<uint64_t> row;
                for (size_t i = 1; i < size_t{1} << shape[2 * level]; ++i)
                    row.push_back(mix(seed + 77 * i + 7 * height + level));
                std::sort(row.begin(), row.end());
                laws[level].push_back(row);
                thresholds.insert(thresholds.end(), row.begin(), row.end());
            }
        }
        // Some words are a threshold, which they must not be below.
        for (size_t i = 0; i < blocks * (shape[1] + shape[3]); ++i)
            words.push_back(i % 4 == 0 ? thresholds[i % thresholds.size()] : mix(seed ^ i << 20));
    }

    // The symbol of a cell: how many thresholds of the tallest height among its keys are at or below its word.
    uint32_t symbol(uint64_t block, size_t level, uint32_t row) const {
        uint32_t height = 0;
        for (size_t i = 0; i < placed.size(); ++i)
            if (block_of(placed[i], blocks) == block && row_at(placed[i], level) == row)
                height = std::max(height, heights[2 * i + level]);
        const uint64_t word = words[block * (shape[1] + shape[3]) + (level == 0 ? 0 : shape[1]) + row];
        const std::vector<uint64_t>& law = laws[level][height];
        return static_cast<uint32_t>(std::upper_bound(law.begin(), law.end(), word) - law.begin());
    }

    uint32_t row_at(uint64_t placement, size_t level) const {
        return row_of(row_bits(placement, row_seed), level, shape[2 * level + 1]);
    }

    std::vector<uint32_t> shape;  // bits and rows of each level
    uint64_t blocks, row_seed;
    std::vector<uint64_t> placed;
    std::vector<uint32_t> heights;
    std::vector<uint64_t> words, thresholds;

   private:
    std::vector<std::vector<uint64_t>> laws[2];
};

inline void try_blocks(std::vector<uint64_t> ids, uint64_t seed, size_t parts) {
    ids.resize(std::min<size_t>(ids.size(), 40));
    const PlainBlocks plain(ids, seed, parts);
    const BlockLayout layout = block_layout({plain.shape.data(), 2, 2}, plain.blocks);
    std::vector<uint64_t> array(block_words * plain.blocks, UINT64_MAX);
    build_blocks(layout, 0, plain.blocks, span(plain.placed), plain.row_seed,
                 {plain.heights.data(), plain.placed.size(), 2}, span(plain.thresholds), span(plain.words),
                 {array.data(), array.size()});

    const size_t first_symbols = size_t{1} << plain.shape[0];
    std::vector<uint64_t> counts(first_symbols + (size_t{1} << plain.shape[2])), plain_counts(counts.size());
    for (uint64_t block = 0; block < plain.blocks; ++block)
        for (size_t level = 0; level < 2; ++level)
            for (uint32_t row = 0; row < plain.shape[2 * level + 1]; ++row)
                ++plain_counts[(level == 0 ? 0 : first_symbols) + plain.symbol(block, level, row)];
    const SymbolCounts symbols(layout, span(array));
    check(symbols.size() == counts.size(), "another number of symbols");
    symbols.count(counts.data());
    check(counts == plain_counts, "symbols are counted wrong");

    // Every pattern is its own value, and its negative the second; every other id is stored.
    std::vector<double> values(size_t{2} << (plain.shape[0] + plain.shape[2]));
    for (size_t i = 0; i < values.size(); i += 2) {
        values[i + 1] = -static_cast<double>(i >> 1);
        values[i] = -values[i + 1];
    }
    std::vector<std::vector<uint64_t>> arrays(parts), stored(parts);
    std::vector<std::vector<int64_t>> stored_values(parts);
    std::map<uint64_t, int64_t> table;
    for (size_t i = 0; i < plain.placed.size(); i += 2) table[plain.placed[i]] = -1 - static_cast<int64_t>(i);
    for (const auto& [id, value] : table) {
        stored[part_of(id, parts)].push_back(id);
        stored_values[part_of(id, parts)].push_back(value);
    }
    std::vector<TableIndex> indices;
    std::vector<Span<const uint64_t>> given;
    for (size_t part = 0; part < parts; ++part) {
        const auto share = static_cast<std::ptrdiff_t>(array.size() / parts);
        arrays[part].assign(array.begin() + share * static_cast<std::ptrdiff_t>(part),
                            array.begin() + share * static_cast<std::ptrdiff_t>(part + 1));
        given.push_back(span(arrays[part]));
        indices.emplace_back(span(stored[part]), span(stored_values[part]));
    }
    std::vector<const TableIndex*> tables;
    tables.reserve(parts);
    for (const TableIndex& index : indices) tables.push_back(&index);
    const Placement place{true, 0, 0};
    const Reader<BlockSource> reader({layout, place, plain.row_seed, given}, tables, span(values),
                                     {{2, 0.5, -20, 1e9, 0.25}, {1, -3, -1e9, 1e9, 1}});
    std::vector<double> answers(ids.size()), second(ids.size());
    double* const outs[] = {answers.data(), second.data()};
    reader.read(KnownIds(span(ids)), outs);
    for (size_t i = 0; i < ids.size(); ++i) {
        const uint64_t block = block_of(ids[i], plain.blocks);
        const auto at = table.find(ids[i]);
        const bool is_stored = at != table.end();
        const double stored_value = is_stored ? static_cast<double>(at->second) : 0;
        const auto pattern = static_cast<double>(plain.symbol(block, 0, plain.row_at(ids[i], 0)) |
                                                 plain.symbol(block, 1, plain.row_at(ids[i], 1)) << plain.shape[0]);
        const double expected = is_stored ? std::max(2 * stored_value + 0.5, -20.0) / 4 : pattern;
        check(answers[i] == expected && reader.read_one(ids[i]) == expected, "a key is read wrong");
        check(second[i] == (is_stored ? stored_value - 3 : -pattern), "the second answer of a key is wrong");
    }
}

}  // namespace sparsedp::fuzz
