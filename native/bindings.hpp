// What the bindings (register_*.cpp) share: arrays of Python as kernels see them, and new ones for their answers.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "memory.hpp"
#include "parallel.hpp"
#include "unlocked.hpp"

namespace sparsedp::bindings {

namespace nb = nanobind;

template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using InMatrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using InOut = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <typename T>
Span<const T> span(const In<T>& array) {
    return {array.data(), array.size()};
}

template <typename T>
Span<T> span(const InOut<T>& array) {
    return {array.data(), array.size()};
}

template <typename T>
std::vector<Span<const T>> spans(const std::vector<In<T>>& arrays) {
    std::vector<Span<const T>> result;
    result.reserve(arrays.size());
    for (const In<T>& array : arrays) result.push_back(span(array));
    return result;
}

template <typename T>
Matrix<const T> matrix(const InMatrix<T>& array) {
    return {array.data(), array.shape(0), array.shape(1)};
}

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
    auto out = uninitialised<T>(length);
    {
        Unlocked unlocked;
        T* data = out.get();
        parallel_for(length, map_grain, [=](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) data[i] = body(i);
        });
    }
    return own(std::move(out), length);
}

// The same for a kernel that knows how many answers it has.
template <typename T, typename Kernel>
Out<T> map(const Kernel& kernel) {
    return map<T>(kernel.size(), kernel);
}

void register_arrow(nb::module_& m);
void register_balancing(nb::module_& m);
void register_blocks(nb::module_& m);
void register_composite(nb::module_& m);
void register_embedding(nb::module_& m);
void register_key_columns(nb::module_& m);
void register_keys(nb::module_& m);
void register_noise(nb::module_& m);
void register_readers(nb::module_& m);
void register_retrieval(nb::module_& m);
void register_rounding(nb::module_& m);
void register_sorting(nb::module_& m);
void register_threads(nb::module_& m);

}  // namespace sparsedp::bindings
