// A uniform solution of a sparse random linear system over GF(2).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "arrays.hpp"
#include "peeling.hpp"

namespace sparsedp {

// Slots of `width` bytes each. Only these bytes are touched: another thread may be writing a neighbouring slot.
template <size_t width>
struct PackedSlots {
    uint8_t* bytes;

    uint64_t load(uint64_t slot) const {
        uint64_t word = 0;
        std::memcpy(&word, bytes + slot * width, width);
        return word;
    }
    void store(uint64_t slot, uint64_t word) const { std::memcpy(bytes + slot * width, &word, width); }
};

// Solves z[h_1] ^ ... ^ z[h_q] = value for all keys, with values cut to the width of a slot. `z` must be filled with
// uniform bytes; slots that the equations leave free keep them, so z is uniform among all solutions. Returns false if
// the rows are linearly dependent, whatever the values: the answer must not depend on the values.
template <typename Index, size_t width>
class Solver {
   public:
    Solver(const SlotHash& hash, const uint64_t* ids, const uint64_t* values, size_t keys, uint8_t* z)
        : hash_(hash), ids_(ids), values_(values), z_{z}, peeled_(hash, ids, keys) {}

    bool solve() {
        if (!solve_core()) return false;
        // Rounds in reverse: every key owns a slot that no other key of its round or of a later round contains.
        for (size_t round = peeled_.rounds.size() - 1; round-- > 0;) {
            const Index* keys = peeled_.order.data() + peeled_.rounds[round];
            parallel_for(peeled_.rounds[round + 1] - peeled_.rounds[round], size_t{1} << 13,
                         [&](size_t begin, size_t end) { fill(keys + begin, end - begin); });
        }
        return true;
    }

   private:
    void fill(const Index* keys, size_t count) const {
        constexpr size_t ahead = 16;
        uint64_t at[ahead][most_slots];
        for (size_t start = 0; start < count; start += ahead) {
            const size_t n = std::min(ahead, count - start);
            for (size_t i = start + ahead; i < std::min(start + 2 * ahead, count); ++i) {
                __builtin_prefetch(&ids_[keys[i]]);
                __builtin_prefetch(&values_[keys[i]]);
                __builtin_prefetch(&peeled_.own[keys[i]]);
            }
            for (size_t i = 0; i < n; ++i) {
                hash_(ids_[keys[start + i]], at[i]);
                for (size_t j = 0; j < hash_.slots; ++j) __builtin_prefetch(z_.bytes + at[i][j] * width, 1);
            }
            for (size_t i = 0; i < n; ++i) {
                const uint8_t own = peeled_.own[keys[start + i]];
                uint64_t rest = values_[keys[start + i]];
                for (size_t j = 0; j < hash_.slots; ++j)
                    if (j != own) rest ^= z_.load(at[i][j]);
                z_.store(at[i][own], rest);
            }
        }
    }

    // Gaussian elimination on the keys that peeling left, as rows of bits over the slots they touch.
    bool solve_core() const {
        std::vector<size_t> core;
        for (size_t i = 0; i < peeled_.own.size(); ++i)
            if (peeled_.own[i] == peeled_.still_there) core.push_back(i);
        if (core.empty()) return true;
        const size_t q = hash_.slots;
        std::vector<uint64_t> positions(core.size() * q);
        for (size_t r = 0; r < core.size(); ++r) hash_(ids_[core[r]], positions.data() + r * q);
        std::vector<uint64_t> slot_of(positions);
        std::sort(slot_of.begin(), slot_of.end());
        slot_of.erase(std::unique(slot_of.begin(), slot_of.end()), slot_of.end());
        const size_t words = (slot_of.size() + 63) / 64;
        std::vector<uint64_t> rows(core.size() * words, 0), sides(core.size());
        for (size_t r = 0; r < core.size(); ++r) {
            sides[r] = values_[core[r]];
            for (size_t j = 0; j < q; ++j) {
                const auto column = std::lower_bound(slot_of.begin(), slot_of.end(), positions[r * q + j]);
                const size_t c = static_cast<size_t>(column - slot_of.begin());
                rows[r * words + c / 64] ^= uint64_t{1} << (c % 64);
            }
        }
        std::vector<size_t> pivot(core.size());
        for (size_t r = 0; r < core.size(); ++r) {
            uint64_t* row = rows.data() + r * words;
            size_t word = 0;
            while (word < words && row[word] == 0) ++word;
            if (word == words) return false;
            pivot[r] = word * 64 + static_cast<size_t>(__builtin_ctzll(row[word]));
            for (size_t other = 0; other < core.size(); ++other) {
                uint64_t* target = rows.data() + other * words;
                if (other == r || !(target[pivot[r] / 64] >> (pivot[r] % 64) & 1)) continue;
                for (size_t w = 0; w < words; ++w) target[w] ^= row[w];
                sides[other] ^= sides[r];
            }
        }
        // Reduced rows: the pivot is the right-hand side XOR the free slots, which keep their uniform bytes.
        std::vector<bool> is_pivot(slot_of.size(), false);
        for (const size_t p : pivot) is_pivot[p] = true;
        for (size_t r = 0; r < core.size(); ++r) {
            uint64_t value = sides[r];
            for (size_t c = 0; c < slot_of.size(); ++c)
                if (!is_pivot[c] && (rows[r * words + c / 64] >> (c % 64) & 1)) value ^= z_.load(slot_of[c]);
            z_.store(slot_of[pivot[r]], value);
        }
        return true;
    }

    SlotHash hash_;
    const uint64_t *ids_, *values_;
    PackedSlots<width> z_;
    Peeling<Index> peeled_;
};

template <size_t width>
bool solve_packed(const SlotHash& hash, const uint64_t* ids, const uint64_t* values, size_t keys, uint8_t* z) {
    if (keys < UINT32_MAX) return Solver<uint32_t, width>(hash, ids, values, keys, z).solve();
    return Solver<uint64_t, width>(hash, ids, values, keys, z).solve();
}

// Turns uniform bytes into a uniform solution, in place, `width` bytes for each slot; false if the rows of the ids are
// linearly dependent.
inline bool solve(const SlotHash& hash, size_t width, Span<const uint64_t> ids, Span<const uint64_t> values,
                  Span<uint8_t> z) {
    require(width >= 1 && width <= 8, "a slot has 1..8 bytes");
    require(z.size == hash.slots * hash.segment * width, "z must have slots x segment x width bytes");
    require(ids.size == values.size, "one value for each id");
    constexpr decltype(&solve_packed<1>) solvers[] = {&solve_packed<1>, &solve_packed<2>, &solve_packed<3>,
                                                      &solve_packed<4>, &solve_packed<5>, &solve_packed<6>,
                                                      &solve_packed<7>, &solve_packed<8>};
    return solvers[width - 1](hash, ids.data, values.data, ids.size, z.data);
}

}  // namespace sparsedp
