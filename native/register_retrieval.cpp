// Bindings of the retrieval system.
#include "bindings.hpp"
#include "solving.hpp"

using namespace sparsedp;

static Out<uint64_t> slots_of(uint64_t k0, uint64_t k1, size_t slots, uint64_t segment, In<uint64_t> ids) {
    const SlotHash hash = slot_hash(k0, k1, slots, segment);
    auto out = uninitialised<uint64_t>(ids.size() * slots);
    for (size_t i = 0; i < ids.size(); ++i) hash(ids.data()[i], out.get() + i * slots);
    return own(std::move(out), ids.size() * slots);
}

// Turns uniform bytes into a uniform solution, in place, `width` bytes for each slot; returns false if the rows of the
// ids are linearly dependent.
static bool solve(nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> z, size_t width, uint64_t k0,
                  uint64_t k1, size_t slots, uint64_t segment, In<uint64_t> ids, In<uint64_t> values) {
    const SlotHash hash = slot_hash(k0, k1, slots, segment);
    require(width >= 1 && width <= 8, "a slot has 1..8 bytes");
    require(z.size() == slots * segment * width, "z must have slots x segment x width bytes");
    require(ids.size() == values.size(), "one value for each id");
    constexpr decltype(&solve_packed<1>) solvers[] = {&solve_packed<1>, &solve_packed<2>, &solve_packed<3>,
                                                      &solve_packed<4>, &solve_packed<5>, &solve_packed<6>,
                                                      &solve_packed<7>, &solve_packed<8>};
    Unlocked unlocked;
    return solvers[width - 1](hash, ids.data(), values.data(), ids.size(), z.data());
}

// Uniform integers below each bound, from two words each: floor(word128 * bound / 2^128), off by a share of 2^-64.
static Out<uint64_t> uniform_below(In<uint64_t> bounds, In<uint64_t> words) {
    require(words.size() == 2 * bounds.size(), "two words for each bound");
    const uint64_t *n = bounds.data(), *w = words.data();
    return map<uint64_t>(bounds.size(), [=](size_t i) {
        const uint128 low = static_cast<uint128>(w[2 * i]) * n[i] >> 64;
        return static_cast<uint64_t>((static_cast<uint128>(w[2 * i + 1]) * n[i] + low) >> 64);
    });
}

void register_retrieval(nb::module_& m) {
    m.def("slots_of", &slots_of, nb::arg("k0"), nb::arg("k1"), nb::arg("slots"), nb::arg("segment"), nb::arg("ids"));
    m.def("uniform_below", &uniform_below, nb::arg("bounds"), nb::arg("words"));
    m.def("solve", &solve, nb::arg("z"), nb::arg("width"), nb::arg("k0"), nb::arg("k1"), nb::arg("slots"),
          nb::arg("segment"), nb::arg("ids"), nb::arg("values"));
}
