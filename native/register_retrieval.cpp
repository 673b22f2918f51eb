// Bindings of the retrieval system.
#include "bindings.hpp"
#include "retrieval.hpp"
#include "solving.hpp"

using namespace sparsedp;

static SlotHash slot_hash(uint64_t k0, uint64_t k1, size_t slots, uint64_t segment) {
    require(slots >= 2 && slots <= most_slots, "a key has 2..8 slots");
    require(segment >= 1 && segment < uint64_t{1} << 31, "a segment has 1..2^31 - 1 slots");
    return {{k0, k1}, slots, static_cast<uint32_t>(segment)};
}

static Out<uint64_t> slots_of(uint64_t k0, uint64_t k1, size_t slots, uint64_t segment, In<uint64_t> ids) {
    const SlotHash hash = slot_hash(k0, k1, slots, segment);
    auto out = std::make_unique<uint64_t[]>(ids.size() * slots);
    for (size_t i = 0; i < ids.size(); ++i) hash(ids.data()[i], out.get() + i * slots);
    return own(std::move(out), ids.size() * slots);
}

// Turns uniform bytes into a uniform solution, in place, `width` bytes for each slot; false if the rows of the ids are
// linearly dependent.
static bool solve(nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> z, size_t width, uint64_t k0,
                  uint64_t k1, size_t slots, uint64_t segment, In<uint64_t> ids, In<uint64_t> values) {
    const SlotHash hash = slot_hash(k0, k1, slots, segment);
    require(width >= 1 && width <= 8, "a slot has 1..8 bytes");
    require(z.size() == slots * segment * width, "z must have slots x segment x width bytes");
    require(ids.size() == values.size(), "one value for each id");
    constexpr decltype(&solve_packed<1>) solvers[] = {&solve_packed<1>, &solve_packed<2>, &solve_packed<3>,
                                                      &solve_packed<4>, &solve_packed<5>, &solve_packed<6>,
                                                      &solve_packed<7>, &solve_packed<8>};
    nb::gil_scoped_release unlocked;
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

// For each id the value of the bucket that its XOR falls into. `packed` has `width` bytes for each slot and eight more.
static Out<double> read_retrieval(In<uint8_t> packed, size_t width, uint64_t k0, uint64_t k1, size_t slots,
                                  uint64_t segment, In<uint64_t> lasts, In<double> bucket_values, In<uint64_t> ids) {
    const SlotHash hash = slot_hash(k0, k1, slots, segment);
    require(width >= 1 && width <= 8, "a slot has 1..8 bytes");
    require(packed.size() == slots * segment * width + 8, "the array must hold the slots and eight bytes");
    require(lasts.size() >= 1 && lasts.size() == bucket_values.size(), "one value for each bucket");
    const uint64_t mask = width == 8 ? UINT64_MAX : (uint64_t{1} << (8 * width)) - 1;
    const uint8_t* z = packed.data();
    const uint64_t *x = ids.data(), *e = lasts.data();
    const double* values = bucket_values.data();
    const size_t count = ids.size(), buckets = lasts.size();
    auto out = std::make_unique<double[]>(count);
    {
        nb::gil_scoped_release unlocked;
        constexpr size_t ahead = 16;
        uint64_t at[ahead][most_slots];
        for (size_t start = 0; start < count; start += ahead) {
            const size_t n = std::min(ahead, count - start);
            for (size_t i = 0; i < n; ++i) {
                hash(x[start + i], at[i]);
                for (size_t j = 0; j < slots; ++j) __builtin_prefetch(z + at[i][j] * width);
            }
            for (size_t i = 0; i < n; ++i) {
                uint64_t u = 0;
                for (size_t j = 0; j < slots; ++j) {
                    uint64_t word;
                    std::memcpy(&word, z + at[i][j] * width, 8);
                    u ^= word;
                }
                out[start + i] = values[bucket_of(e, buckets, u & mask)];
            }
        }
    }
    return own(std::move(out), count);
}

void register_retrieval(nb::module_& m) {
    m.def("slots_of", &slots_of, nb::arg("k0"), nb::arg("k1"), nb::arg("slots"), nb::arg("segment"), nb::arg("ids"));
    m.def("uniform_below", &uniform_below, nb::arg("bounds"), nb::arg("words"));
    m.def("solve", &solve, nb::arg("z"), nb::arg("width"), nb::arg("k0"), nb::arg("k1"), nb::arg("slots"), nb::arg("segment"), nb::arg("ids"), nb::arg("values"));
    m.def("read_retrieval", &read_retrieval, nb::arg("packed"), nb::arg("width"), nb::arg("k0"), nb::arg("k1"),
          nb::arg("slots"), nb::arg("segment"), nb::arg("lasts"), nb::arg("bucket_values"), nb::arg("ids"));
}
