// Bindings of the cache-line blocks.
#include "bindings.hpp"

using namespace sparsedp;

static Out<uint64_t> placements(In<uint64_t> ids, uint64_t seed0, uint64_t seed1) {
    const uint64_t* x = ids.data();
    const Placement place{false, seed0, seed1};
    return map<uint64_t>(ids.size(), [=](size_t i) { return place(x[i]); });
}

// The part of each id: the high word of placement x parts.
static Out<uint64_t> parts_of(In<uint64_t> ids, bool hashed, uint64_t seed0, uint64_t seed1, uint64_t parts) {
    const uint64_t* x = ids.data();
    const Placement place{hashed, seed0, seed1};
    return map<uint64_t>(ids.size(), [=](size_t i) { return block_of(place(x[i]), parts); });
}

// Blocks first..first + count of the release, into `array`: the cell of a level holds a noisy symbol of the largest
// height among its keys. `heights` has one row of levels for each key.
static void build_blocks(InOut array, Shape shape, uint64_t blocks, uint64_t first, uint64_t count, In<uint64_t> placed,
                         uint64_t row_seed,
                         nb::ndarray<const uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> heights,
                         In<uint64_t> thresholds, In<uint64_t> words) {
    const BlockLayout layout = block_layout(shape, blocks);
    require(first + count <= blocks && array.size() == 8 * count, "the array must hold the blocks");
    require(heights.shape(0) == placed.size() && heights.shape(1) == layout.levels, "a height for each key and level");
    require(words.size() == count * layout.cells, "one random word for each cell");
    Unlocked unlocked;
    size_t tallest[most_levels] = {}, used = 0, table[most_levels];
    const size_t keys = placed.size();
    const uint32_t* h = heights.data();
    for (size_t i = 0; i < keys; ++i)
        for (size_t j = 0; j < layout.levels; ++j) tallest[j] = std::max<size_t>(tallest[j], h[i * layout.levels + j]);
    const uint64_t* t = thresholds.data();
    // Thresholds: for each level its number of heights, then one row for each height.
    for (size_t j = 0; j < layout.levels; ++j) {
        require(used < thresholds.size() && t[used] > tallest[j], "a height has no law");
        table[j] = used + 1;
        used += 1 + static_cast<size_t>(t[used]) * ((size_t{1} << layout.bits[j]) - 1);
        require(used <= thresholds.size(), "thresholds end too early");
    }
    const uint64_t *p = placed.data(), *w = words.data();
    for (size_t i = 0; i < keys; ++i) {
        const uint64_t block = block_of(p[i], blocks);
        require(block >= first && block - first < count, "a key lies outside of the blocks");
    }
    auto* out = reinterpret_cast<uint8_t*>(array.data());
    auto tall = std::make_unique<uint32_t[]>(count * layout.cells);
    for (size_t i = 0; i < keys; ++i) {
        uint32_t* cell = tall.get() + (block_of(p[i], blocks) - first) * layout.cells;
        const uint64_t choice = row_bits(p[i], row_seed);
        for (size_t j = 0; j < layout.levels; ++j) {
            uint32_t& height = cell[row_of(choice, j, layout.rows[j])];
            height = std::max(height, h[i * layout.levels + j]);
            cell += layout.rows[j];
        }
    }
    for (uint64_t block = 0; block < count; ++block) {
        uint8_t built[block_bytes + 8] = {};
        size_t cell = block * layout.cells;
        for (size_t j = 0; j < layout.levels; ++j) {
            const size_t width = (size_t{1} << layout.bits[j]) - 1;
            for (uint32_t row = 0; row < layout.rows[j]; ++row, ++cell) {
                const uint32_t symbol = draw_symbol(t + table[j] + tall[cell] * width, layout.bits[j], w[cell]);
                write_cell(built, layout.offsets[j] + row * layout.bits[j], symbol);
            }
        }
        std::memcpy(out + block * block_bytes, built, block_bytes);
    }
}

// How often each symbol occurs, level after level.
static Out<uint64_t> count_symbols(In<uint64_t> array, Shape shape, uint64_t blocks) {
    const BlockLayout layout = block_layout(shape, blocks);
    require(array.size() == 8 * blocks, "the array must hold the blocks");
    size_t symbols = 0, first[most_levels];
    for (size_t j = 0; j < layout.levels; ++j) {
        first[j] = symbols;
        symbols += size_t{1} << layout.bits[j];
    }
    auto out = uninitialised<uint64_t>(symbols);
    std::fill_n(out.get(), symbols, 0);
    const auto* bytes = reinterpret_cast<const uint8_t*>(array.data());
    {
        Unlocked unlocked;
        std::mutex guard;
        parallel_for(blocks, size_t{1} << 10, [&](size_t begin, size_t end) {
            std::vector<uint64_t> counts(symbols, 0);
            for (size_t block = begin; block < end; ++block)
                for (size_t j = 0; j < layout.levels; ++j)
                    for (uint32_t row = 0; row < layout.rows[j]; ++row)
                        ++counts[first[j] + read_cell(bytes + block * block_bytes,
                                                      layout.offsets[j] + row * layout.bits[j], layout.bits[j])];
            const std::lock_guard<std::mutex> lock(guard);
            for (size_t s = 0; s < symbols; ++s) out[s] += counts[s];
        });
    }
    return own(std::move(out), symbols);
}

void register_blocks(nb::module_& m) {
    m.def("placements", &placements, nb::arg("ids"), nb::arg("seed0"), nb::arg("seed1"));
    m.def("parts_of", &parts_of, nb::arg("ids"), nb::arg("hashed"), nb::arg("seed0"), nb::arg("seed1"),
          nb::arg("parts"));
    m.def("build_blocks", &build_blocks, nb::arg("array"), nb::arg("shape"), nb::arg("blocks"), nb::arg("first"),
          nb::arg("count"), nb::arg("placed"), nb::arg("row_seed"), nb::arg("heights"), nb::arg("thresholds"),
          nb::arg("words"));
    m.def("count_symbols", &count_symbols, nb::arg("array"), nb::arg("shape"), nb::arg("blocks"));
}
