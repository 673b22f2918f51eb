// Bindings of the cache-line blocks.
#include "bindings.hpp"
#include "block_building.hpp"
#include "blocks.hpp"

namespace sparsedp::bindings {
namespace {

Out<uint64_t> placements(In<uint64_t> ids, uint64_t seed0, uint64_t seed1) {
    const uint64_t* x = ids.data();
    const Placement place{false, seed0, seed1};
    return map<uint64_t>(ids.size(), [=](size_t i) { return place(x[i]); });
}

// The part of each id: the high word of placement x parts.
Out<uint64_t> parts_of(In<uint64_t> ids, bool hashed, uint64_t seed0, uint64_t seed1, uint64_t parts) {
    const uint64_t* x = ids.data();
    const Placement place{hashed, seed0, seed1};
    return map<uint64_t>(ids.size(), [=](size_t i) { return block_of(place(x[i]), parts); });
}

void build_blocks(InOut<uint64_t> array, InMatrix<uint32_t> shape, uint64_t blocks, uint64_t first, uint64_t count,
                  In<uint64_t> placed, uint64_t row_seed, InMatrix<uint32_t> heights, In<uint64_t> thresholds,
                  In<uint64_t> words) {
    const BlockLayout layout = block_layout(matrix(shape), blocks);
    Unlocked unlocked;
    sparsedp::build_blocks(layout, first, count, span(placed), row_seed, matrix(heights), span(thresholds), span(words),
                           span(array));
}

Out<uint64_t> count_symbols(In<uint64_t> array, InMatrix<uint32_t> shape, uint64_t blocks) {
    const SymbolCounts symbols(block_layout(matrix(shape), blocks), span(array));
    auto out = uninitialised<uint64_t>(symbols.size());
    {
        Unlocked unlocked;
        symbols.count(out.get());
    }
    return own(std::move(out), symbols.size());
}

}  // namespace

void register_blocks(nb::module_& m) {
    m.def("placements", &placements, nb::arg("ids"), nb::arg("seed0"), nb::arg("seed1"));
    m.def("parts_of", &parts_of, nb::arg("ids"), nb::arg("hashed"), nb::arg("seed0"), nb::arg("seed1"),
          nb::arg("parts"));
    m.def("build_blocks", &build_blocks, nb::arg("array"), nb::arg("shape"), nb::arg("blocks"), nb::arg("first"),
          nb::arg("count"), nb::arg("placed"), nb::arg("row_seed"), nb::arg("heights"), nb::arg("thresholds"),
          nb::arg("words"));
    m.def("count_symbols", &count_symbols, nb::arg("array"), nb::arg("shape"), nb::arg("blocks"));
}

}  // namespace sparsedp::bindings
