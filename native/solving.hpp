// A uniform solution of a sparse random linear system over GF(2).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
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
template <typename Word, size_t width>
class Solver {
   public:
    Solver(const Peeling<Word>& peeled, const uint64_t* values, uint8_t* z)
        : peeled_(peeled), hash_(peeled.hash()), ids_(peeled.ids().data), values_(values), z_{z} {}

    bool solve() const {
        if (!solve_core()) return false;
        // Rounds in reverse: every key owns a slot that no other key of its round or of a later round contains.
        for (size_t number = peeled_.rounds(); number-- > 0;) {
            const Span<const Word> round = peeled_.round(number);
            parallel_for(round.size, size_t{1} << 13,
                         [&](size_t begin, size_t end) { fill(round.data + begin, end - begin); });
        }
        return true;
    }

   private:
    using Left = typename Peeling<Word>::Left;

    void fill(const Word* left, size_t count) const {
        constexpr size_t batch = 32;
        uint64_t at[2][most_slots][batch];
        const auto fetch = [&](size_t start, uint64_t (*to)[batch]) {
            const size_t n = std::min(batch, count - start);
            for (size_t i = start + batch; i < std::min(start + 2 * batch, count); ++i) {
                __builtin_prefetch(&ids_[Left::key(left[i])]);
                __builtin_prefetch(&values_[Left::key(left[i])]);
            }
            uint64_t ids[batch];
            for (size_t i = 0; i < n; ++i) ids[i] = ids_[Left::key(left[start + i])];
            hash_.of_many(ids, n, to);
            for (size_t j = 0; j < hash_.slots; ++j)
                for (size_t i = 0; i < n; ++i) __builtin_prefetch(z_.bytes + to[j][i] * width, 1);
        };
        if (count > 0) fetch(0, at[0]);
        for (size_t start = 0, now = 0; start < count; start += batch, now = 1 - now) {
            if (start + batch < count) fetch(start + batch, at[1 - now]);
            for (size_t i = 0; i < std::min(batch, count - start); ++i) {
                const size_t own = Left::segment(left[start + i]);
                uint64_t rest = values_[Left::key(left[start + i])];
                for (size_t j = 0; j < hash_.slots; ++j)
                    if (j != own) rest ^= z_.load(at[now][j][i]);
                z_.store(at[now][own][i], rest);
            }
        }
    }

    // Gaussian elimination on the keys that peeling left, as rows of bits over the slots they touch.
    bool solve_core() const {
        const std::vector<size_t> core = peeled_.core();
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

    const Peeling<Word>& peeled_;
    SlotHash hash_;
    const uint64_t *ids_, *values_;
    PackedSlots<width> z_;
};

template <typename Word>
bool solve_peeled(const Peeling<Word>& peeled, size_t width, const uint64_t* values, uint8_t* z) {
    const auto with = [&](auto constant) { return Solver<Word, decltype(constant)::value>(peeled, values, z).solve(); };
    switch (width) {
        case 1: return with(std::integral_constant<size_t, 1>());
        case 2: return with(std::integral_constant<size_t, 2>());
        case 3: return with(std::integral_constant<size_t, 3>());
        case 4: return with(std::integral_constant<size_t, 4>());
        case 5: return with(std::integral_constant<size_t, 5>());
        case 6: return with(std::integral_constant<size_t, 6>());
        case 7: return with(std::integral_constant<size_t, 7>());
        default: return with(std::integral_constant<size_t, 8>());
    }
}

// The system of some ids, peeled without their values, so that the memory of peeling is free again before the slots are
// needed. The ids must stay where they are.
class SparseSystem {
   public:
    SparseSystem(const SlotHash& hash, Span<const uint64_t> ids) : hash_(hash), keys_(ids.size) {
        require(ids.size <= SlotSum<uint64_t>::most_keys, "a system has at most 2^34 keys");
        if (ids.size <= SlotSum<uint32_t>::most_keys) small_ = std::make_unique<const Peeling<uint32_t>>(hash, ids);
        if (small_ && !small_->crowded()) return;
        small_.reset();
        large_ = std::make_unique<const Peeling<uint64_t>>(hash, ids);
        require(!large_->crowded(), "a slot has at most 2^30 keys");
    }

    // Turns uniform bytes into a uniform solution, in place, `width` bytes for each slot; false if the rows of the ids
    // are linearly dependent.
    bool solve(size_t width, Span<const uint64_t> values, Span<uint8_t> z) const {
        require(width >= 1 && width <= 8, "a slot has 1..8 bytes");
        require(z.size == hash_.slots * hash_.segment * width, "z must have slots x segment x width bytes");
        require(values.size == keys_, "one value for each id");
        return small_ ? solve_peeled(*small_, width, values.data, z.data)
                      : solve_peeled(*large_, width, values.data, z.data);
    }

   private:
    SlotHash hash_;
    size_t keys_;
    std::unique_ptr<const Peeling<uint32_t>> small_;
    std::unique_ptr<const Peeling<uint64_t>> large_;
};

}  // namespace sparsedp
