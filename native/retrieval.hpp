// A sparse random linear system over GF(2): every key XORs one slot of each of q segments.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "siphash.hpp"
#include "universal.hpp"

namespace sparsedp {

constexpr size_t most_slots = 8;

// Slot j of a key is uniform in segment j: 32 bits of a 128-bit SipHash output each, four slots for every output.
struct SlotHash {
    SipKey key;
    size_t slots;
    uint32_t segment;

    void operator()(uint64_t id, uint64_t* out) const {
        for (size_t first = 0; first < slots; first += 4) {
            SipHash24 state = SipHash24::wide(key);
            state.absorb(id);
            state.absorb(first | uint64_t{9} << 56);
            uint64_t bits[2];
            state.finish_wide(bits);
            for (size_t j = first; j < std::min(first + 4, slots); ++j) {
                const uint64_t own = bits[(j - first) / 2] >> (32 * (j % 2)) & 0xffffffff;
                out[j] = j * segment + (own * segment >> 32);
            }
        }
    }
};

// Solves z[h_1] ^ ... ^ z[h_q] = value for all keys. `z` comes filled with uniform words; slots that the equations
// leave free keep them, so z is uniform among all solutions. False if the rows are linearly dependent, whatever the
// values: the answer must not depend on them.
class LinearSystem {
   public:
    LinearSystem(const SlotHash& hash, const uint64_t* ids, const uint64_t* values, size_t keys, uint64_t* z)
        : slots_(hash.slots), values_(values), keys_(keys), size_(hash.slots * size_t{hash.segment}), z_(z) {
        positions_.resize(keys * slots_);
        for (size_t i = 0; i < keys; ++i) hash(ids[i], positions_.data() + i * slots_);
    }

    bool solve() {
        peel();
        if (!solve_core()) return false;
        // Peeled keys in reverse: every one owns a slot that no key peeled later contains.
        for (size_t n = order_.size(); n-- > 0;) {
            const auto [key, own] = order_[n];
            uint64_t rest = values_[key];
            for (size_t j = 0; j < slots_; ++j) {
                const uint64_t slot = positions_[key * slots_ + j];
                if (slot != own) rest ^= z_[slot];
            }
            z_[own] = rest;
        }
        return true;
    }

   private:
    struct Peeled {
        uint64_t key, slot;
    };

    // Repeatedly removes a key that is alone in one of its slots.
    void peel() {
        std::vector<uint32_t> degree(size_, 0);
        std::vector<uint64_t> mixed(size_, 0);  // XOR of the keys in a slot: the key itself when it is alone
        for (size_t i = 0; i < keys_; ++i)
            for (size_t j = 0; j < slots_; ++j) {
                ++degree[positions_[i * slots_ + j]];
                mixed[positions_[i * slots_ + j]] ^= i;
            }
        std::vector<uint64_t> alone;
        for (size_t slot = 0; slot < size_; ++slot)
            if (degree[slot] == 1) alone.push_back(slot);
        removed_.assign(keys_, false);
        order_.reserve(keys_);
        while (!alone.empty()) {
            const uint64_t slot = alone.back();
            alone.pop_back();
            if (degree[slot] != 1) continue;
            const uint64_t key = mixed[slot];
            order_.push_back({key, slot});
            removed_[key] = true;
            for (size_t j = 0; j < slots_; ++j) {
                const uint64_t other = positions_[key * slots_ + j];
                mixed[other] ^= key;
                if (--degree[other] == 1) alone.push_back(other);
            }
        }
    }

    // Gaussian elimination on the keys that peeling left, as rows of bits over the slots they touch.
    bool solve_core() {
        std::vector<uint64_t> core;
        for (size_t i = 0; i < keys_; ++i)
            if (!removed_[i]) core.push_back(i);
        if (core.empty()) return true;
        std::vector<uint64_t> column(size_, UINT64_MAX), slot_of;
        for (const uint64_t key : core)
            for (size_t j = 0; j < slots_; ++j) {
                uint64_t& c = column[positions_[key * slots_ + j]];
                if (c == UINT64_MAX) {
                    c = slot_of.size();
                    slot_of.push_back(positions_[key * slots_ + j]);
                }
            }
        const size_t width = (slot_of.size() + 63) / 64;
        std::vector<uint64_t> rows(core.size() * width, 0), sides(core.size());
        for (size_t r = 0; r < core.size(); ++r) {
            sides[r] = values_[core[r]];
            for (size_t j = 0; j < slots_; ++j) {
                const uint64_t c = column[positions_[core[r] * slots_ + j]];
                rows[r * width + c / 64] ^= uint64_t{1} << (c % 64);
            }
        }
        std::vector<size_t> pivot(core.size());
        for (size_t r = 0; r < core.size(); ++r) {
            uint64_t* row = rows.data() + r * width;
            size_t word = 0;
            while (word < width && row[word] == 0) ++word;
            if (word == width) return false;
            pivot[r] = word * 64 + static_cast<size_t>(__builtin_ctzll(row[word]));
            for (size_t other = 0; other < core.size(); ++other) {
                uint64_t* target = rows.data() + other * width;
                if (other == r || !(target[pivot[r] / 64] >> (pivot[r] % 64) & 1)) continue;
                for (size_t w = 0; w < width; ++w) target[w] ^= row[w];
                sides[other] ^= sides[r];
            }
        }
        // Reduced rows: the pivot is the side XOR the free slots, which keep their uniform words.
        std::vector<bool> is_pivot(slot_of.size(), false);
        for (const size_t p : pivot) is_pivot[p] = true;
        for (size_t r = 0; r < core.size(); ++r) {
            uint64_t value = sides[r];
            for (size_t c = 0; c < slot_of.size(); ++c)
                if (!is_pivot[c] && (rows[r * width + c / 64] >> (c % 64) & 1)) value ^= z_[slot_of[c]];
            z_[slot_of[pivot[r]]] = value;
        }
        return true;
    }

    size_t slots_;
    const uint64_t* values_;
    size_t keys_, size_;
    uint64_t* z_;
    std::vector<uint64_t> positions_;
    std::vector<bool> removed_;
    std::vector<Peeled> order_;
};

// Which bucket a number of `bits` bits falls into: `lasts` are the largest numbers of the buckets, ascending. The leading
// bits of the number give the first bucket that it may be in, which is nearly always the one.
class BucketIndex {
   public:
    BucketIndex(const uint64_t* lasts, size_t count, unsigned bits)
        : lasts_(lasts), mask_(bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1), shift_(bits - leading) {
        for (size_t top = 0, bucket = 0; top < size_t{1} << leading; ++top) {
            while (bucket + 1 < count && lasts[bucket] < static_cast<uint64_t>(top) << shift_) ++bucket;
            first_[top] = static_cast<uint32_t>(bucket);
        }
        last_ = static_cast<uint32_t>(count - 1);
    }

    size_t operator()(uint64_t number) const {
        number &= mask_;
        uint32_t bucket = first_[number >> shift_];
        while (bucket < last_ && lasts_[bucket] < number) ++bucket;
        return bucket;
    }

   private:
    static constexpr unsigned leading = 8;
    const uint64_t* lasts_;
    uint64_t mask_;
    unsigned shift_;
    uint32_t last_, first_[size_t{1} << leading];
};

}  // namespace sparsedp
