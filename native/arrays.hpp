// Arrays that belong to the caller, as kernels get them, and how kernels refuse them.
#pragma once
#include <cstddef>
#include <stdexcept>

namespace sparsedp {

template <typename T>
struct Span {
    T* data;
    size_t size;

    T& operator[](size_t i) const { return data[i]; }
};

// Rows of equal length, one after the other.
template <typename T>
struct Matrix {
    T* data;
    size_t rows, columns;

    T* operator[](size_t row) const { return data + row * columns; }
};

// Kernels check sizes and ranges themselves, so that no caller can make them read or write beyond an array.
inline void require(bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(what);
}

}  // namespace sparsedp
