// What the bindings share: array types, ownership, checks.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "blocks.hpp"
#include "memory.hpp"
#include "parallel.hpp"
#include "retrieval.hpp"
#include "unlocked.hpp"

namespace nb = nanobind;

template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using InMatrix = nb::ndarray<const uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using InOut = nb::ndarray<uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <typename T>
Out<T> own(std::unique_ptr<T[]> data, size_t length) {
    T* raw = data.release();
    nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Out<T>(raw, {length}, owner);
}

// Fewer elements than this are not worth a thread.
constexpr size_t map_grain = size_t{1} << 14;

// The array of body(i) for every i, computed without the interpreter lock, and in several threads if it is long.
template <typename T, typename Body>
Out<T> map(size_t length, Body body) {
    auto out = sparsedp::uninitialised<T>(length);
    {
        Unlocked unlocked;
        T* data = out.get();
        sparsedp::parallel_for(length, map_grain, [=](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) data[i] = body(i);
        });
    }
    return own(std::move(out), length);
}

inline void require(bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(what);
}

using Shape = nb::ndarray<const uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// shape: one row (bits, rows) for each level.
inline sparsedp::BlockLayout block_layout(Shape shape, uint64_t blocks) {
    require(shape.shape(1) == 2 && shape.shape(0) >= 1 && shape.shape(0) <= sparsedp::most_levels,
            "a shape has 1..4 levels");
    sparsedp::BlockLayout layout{shape.shape(0), blocks, {}, {}, {}, 0};
    uint64_t used = 0;
    for (size_t j = 0; j < layout.levels; ++j) {
        const uint32_t bits = shape(j, 0), rows = shape(j, 1);
        require(bits >= 1 && bits <= 8 && rows >= 1 && rows <= 512, "a level has 1..8 bits and 1..512 rows");
        layout.bits[j] = bits;
        layout.rows[j] = rows;
        layout.offsets[j] = static_cast<uint32_t>(used);
        layout.cells += rows;
        used += static_cast<uint64_t>(bits) * rows;
    }
    require(used <= 8 * sparsedp::block_bytes, "the levels must fit in a block of 512 bits");
    require(blocks >= 1, "there must be a block");
    return layout;
}

inline sparsedp::SlotHash slot_hash(uint64_t k0, uint64_t k1, size_t slots, uint64_t segment) {
    require(slots >= 2 && slots <= sparsedp::most_slots, "a key has 2..8 slots");
    require(segment >= 1 && segment < uint64_t{1} << 31, "a segment has 1..2^31 - 1 slots");
    return {{k0, k1}, slots, static_cast<uint32_t>(segment)};
}

void register_blocks(nb::module_& m);
void register_readers(nb::module_& m);
void register_retrieval(nb::module_& m);
void register_sorting(nb::module_& m);
