// What the bindings share: array types, ownership, checks.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "memory.hpp"
#include "parallel.hpp"

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

// The array of body(i) for every i, computed without the interpreter lock and in several threads if it is long.
template <typename T, typename Body>
Out<T> map(size_t length, Body body) {
    auto out = sparsedp::uninitialised<T>(length);
    {
        nb::gil_scoped_release unlocked;
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

void register_blocks(nb::module_& m);
void register_retrieval(nb::module_& m);
void register_sorting(nb::module_& m);
