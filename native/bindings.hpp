// What the bindings share: array types, ownership, checks.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

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

// Runs body(i, out) for every i without the interpreter lock and gives the filled array.
template <typename T, typename Body>
Out<T> map(size_t length, Body body) {
    auto out = std::make_unique<T[]>(length);
    {
        nb::gil_scoped_release unlocked;
        for (size_t i = 0; i < length; ++i) out[i] = body(i);
    }
    return own(std::move(out), length);
}

inline void require(bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(what);
}

void register_blocks(nb::module_& m);
void register_retrieval(nb::module_& m);
