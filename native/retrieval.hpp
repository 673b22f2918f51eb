// A sparse random linear system over GF(2): every key XORs one slot of each of q segments.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "siphash.hpp"
#include "universal.hpp"

namespace sparsedp {

constexpr size_t most_slots = 8;

// Slot j of a key is uniform in segment j: 32 bits of a SipHash output each, two slots for every output.
struct SlotHash {
    SipKey key;
    size_t slots;
    uint32_t segment;

    void operator()(uint64_t id, uint64_t* out) const {
        for (size_t j = 0; j < slots; j += 2) pair(id, j, out + j);
    }

    // Slots j and j + 1, for an even j; only the first if there is no other.
    void pair(uint64_t id, size_t j, uint64_t* out) const {
        SipHash24 state(key);
        state.absorb(id);
        state.absorb(j | uint64_t{9} << 56);
        const uint64_t bits = state.finish();
        out[0] = j * segment + ((bits >> 32) * segment >> 32);
        if (j + 1 < slots) out[1] = (j + 1) * segment + ((bits & 0xffffffff) * segment >> 32);
    }
};

// The index of the bucket of u: `lasts` are the largest numbers of the buckets, ascending, u is at most the last one.
inline size_t bucket_of(const uint64_t* lasts, size_t count, uint64_t u) {
    size_t low = 0;
    for (size_t length = count; length > 1;) {
        const size_t half = length / 2;
        low += lasts[low + half - 1] < u ? half : 0;
        length -= half;
    }
    return low;
}

}  // namespace sparsedp
