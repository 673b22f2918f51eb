// A sparse random linear system over GF(2): every key XORs one slot of each of q segments.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arrays.hpp"
#include "siphash.hpp"
#include "siphash_lanes.hpp"
#include "universal.hpp"

namespace sparsedp {

constexpr size_t most_slots = 8;

// Slot j of a key is uniform in segment j, from 32 bits of a 128-bit SipHash output; an output serves four slots.
struct SlotHash {
    SipKey key;
    size_t slots;
    uint32_t segment;

    void operator()(uint64_t id, uint64_t* out) const {
        for (size_t j = 0; j < slots; j += 4) {
            uint64_t bits[2];
            bits_of(id, j, bits, slots - j > 2 ? 2 : 1);
            for (size_t s = j; s < std::min(j + 4, slots); ++s) out[s] = slot(s, bits[(s - j) / 2]);
        }
    }

    // The slots of up to `most_ids` ids: slot j of ids[i] is out[j][i].
    template <size_t most_ids>
    void of_many(const uint64_t* ids, size_t count, uint64_t (*out)[most_ids]) const {
        uint64_t bits[2][most_ids];
        uint64_t* const halves[2] = {bits[0], bits[1]};
        for (size_t j = 0; j < slots; j += 4) {
            quickest_sip().wide(key, ids, count, last_word(j), slots - j > 2 ? 2 : 1, halves);
            for (size_t s = j; s < std::min(j + 4, slots); ++s)
                for (size_t i = 0; i < count; ++i) out[s][i] = slot(s, bits[(s - j) / 2][i]);
        }
    }

    // Slots j and j + 1, for an even j; only slot j if it is the last.
    void pair(uint64_t id, size_t j, uint64_t* out) const {
        uint64_t bits[2];
        bits_of(id, j / 4 * 4, bits, j % 4 == 0 ? 1 : 2);
        out[0] = slot(j, bits[j % 4 / 2]);
        if (j + 1 < slots) out[1] = slot(j + 1, bits[j % 4 / 2]);
    }

   private:
    static uint64_t last_word(size_t first) { return first | uint64_t{9} << 56; }

    void bits_of(uint64_t id, size_t first, uint64_t* out, int words) const {
        SipHash24 state(key);
        state.make_wide();
        state.absorb(id);
        state.absorb(last_word(first));
        state.finish_wide(out, words);
    }

    uint64_t slot(size_t j, uint64_t bits) const {
        return j * segment + ((bits >> (32 * (j % 2)) & 0xffffffff) * segment >> 32);
    }
};

inline SlotHash slot_hash(SipKey key, size_t slots, uint64_t segment) {
    require(slots >= 2 && slots <= most_slots, "a key has 2..8 slots");
    require(segment >= 1 && segment < uint64_t{1} << 31, "a segment has 1..2^31 - 1 slots");
    return {key, slots, static_cast<uint32_t>(segment)};
}

// The slots of all ids, one id after the other.
inline void slots_of(const SlotHash& hash, Span<const uint64_t> ids, uint64_t* out) {
    for (size_t i = 0; i < ids.size; ++i) hash(ids[i], out + i * hash.slots);
}

}  // namespace sparsedp
