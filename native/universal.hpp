// Rows of the classic layout: one Carter-Wegman function per level over the Mersenne prime 2^89 - 1.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arrays.hpp"

namespace sparsedp {

using uint128 = unsigned __int128;

// x -> ((a x + b) mod P) scaled to [0, rows), with 1 <= a < P, 0 <= b < P. Two different 64-bit ids collide with
// probability at most 1/rows: for a != 0 their images are a uniform pair of *distinct* residues, and no row holds
// more than 1 + (P - 1)/rows of them (docs/privacy.md, "Row positions").
struct RowFunction {
    static constexpr unsigned bits = 89;
    static constexpr uint128 prime = (static_cast<uint128>(1) << bits) - 1;

    uint64_t a_low, a_high, b_low, b_high;

    uint64_t row(uint64_t id, uint64_t rows) const {
        // a x = a_high x 2^64 + a_low x, and 2^64 t = (t mod 2^25) 2^64 + floor(t / 2^25) modulo 2^89 - 1.
        const uint128 high = static_cast<uint128>(a_high) * id;
        const uint128 low = static_cast<uint128>(a_low) * id;
        const uint128 folded = ((high & ((1U << 25) - 1)) << 64) + (high >> 25);
        const uint128 b = static_cast<uint128>(b_high) << 64 | b_low;
        uint128 residue = (low & prime) + (low >> bits) + folded + b;
        residue = (residue & prime) + (residue >> bits);
        if (residue >= prime) residue -= prime;
        return static_cast<uint64_t>(residue * rows >> bits);
    }
};

inline void require_rows(uint64_t rows) { require(rows >= 1 && rows >> 39 == 0, "rows must be in 1..2^39 - 1"); }

// One function for each row of coefficients. They are copied, so that no kernel depends on the layout of the struct.
inline std::vector<RowFunction> row_functions(Matrix<const uint64_t> coefficients) {
    require(coefficients.columns == 4, "a row function has four words");
    std::vector<RowFunction> functions;
    functions.reserve(coefficients.rows);
    for (size_t level = 0; level < coefficients.rows; ++level) {
        const uint64_t* c = coefficients[level];
        require(c[1] >> 25 == 0 && c[3] >> 25 == 0, "coefficients must be below 2^89");
        functions.push_back({c[0], c[1], c[2], c[3]});
    }
    return functions;
}

// The row of each id in one level.
class RowsOfLevel {
   public:
    RowsOfLevel(Matrix<const uint64_t> coefficients, uint64_t rows, uint64_t level, Span<const uint64_t> ids)
        : function_(checked(coefficients, rows, level)), rows_(rows), ids_(ids) {}

    size_t size() const { return ids_.size; }
    uint64_t operator()(size_t i) const { return function_.row(ids_[i], rows_); }

   private:
    static RowFunction checked(Matrix<const uint64_t> coefficients, uint64_t rows, uint64_t level) {
        require(level < coefficients.rows, "no such level");
        require_rows(rows);
        return row_functions(coefficients)[level];
    }

    RowFunction function_;
    uint64_t rows_;
    Span<const uint64_t> ids_;
};

}  // namespace sparsedp
