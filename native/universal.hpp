// Rows of the classic layout: one Carter-Wegman function per level over the Mersenne prime 2^89 - 1.
#pragma once
#include <cstdint>

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
        const uint128 folded = ((high & ((1u << 25) - 1)) << 64) + (high >> 25);
        const uint128 b = static_cast<uint128>(b_high) << 64 | b_low;
        uint128 residue = (low & prime) + (low >> bits) + folded + b;
        residue = (residue & prime) + (residue >> bits);
        if (residue >= prime) residue -= prime;
        return static_cast<uint64_t>(residue * rows >> bits);
    }
};

}  // namespace sparsedp
