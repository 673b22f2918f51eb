// SipHash-2-4 (Aumasson and Bernstein, 2012) of a message followed by an optional one-byte type tag.
#pragma once
#include <cstddef>
#include <cstdint>

#include "arrays.hpp"

namespace sparsedp {

struct SipKey {
    uint64_t k0, k1;
};

class SipHash24 {
   public:
    explicit SipHash24(SipKey key)
        : v0(key.k0 ^ 0x736f6d6570736575ULL),
          v1(key.k1 ^ 0x646f72616e646f6dULL),
          v2(key.k0 ^ 0x6c7967656e657261ULL),
          v3(key.k1 ^ 0x7465646279746573ULL) {}

    void absorb(uint64_t block) {
        v3 ^= block;
        round();
        round();
        v0 ^= block;
    }

    uint64_t finish() {
        v2 ^= 0xff;
        round();
        round();
        round();
        round();
        return v0 ^ v1 ^ v2 ^ v3;
    }

    // The variant with 128 bits of output, in two words. Its initial state has a different `v1`: see `wide`.
    static SipHash24 wide(SipKey key) {
        SipHash24 state(key);
        state.v1 ^= 0xee;
        return state;
    }

    void finish_wide(uint64_t* out, int words) {
        v2 ^= 0xee;
        for (int half = 0; half < words; ++half) {
            if (half == 1) v1 ^= 0xdd;
            round();
            round();
            round();
            round();
            out[half] = v0 ^ v1 ^ v2 ^ v3;
        }
    }

   private:
    static uint64_t rotate(uint64_t x, int b) { return x << b | x >> (64 - b); }

    void round() {
        // clang-format off: a line for each step of the paper's figure
        v0 += v1; v1 = rotate(v1, 13); v1 ^= v0; v0 = rotate(v0, 32);
        v2 += v3; v3 = rotate(v3, 16); v3 ^= v2;
        v0 += v3; v3 = rotate(v3, 21); v3 ^= v0;
        v2 += v1; v1 = rotate(v1, 17); v1 ^= v2; v2 = rotate(v2, 32);
        // clang-format on
    }

    uint64_t v0, v1, v2, v3;
};

inline uint64_t load_little_endian(const uint8_t* bytes, size_t count) {
    uint64_t word = 0;
    for (size_t i = 0; i < count; ++i) word |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    return word;
}

inline SipKey sip_key(Span<const uint8_t> bytes) {
    require(bytes.size == 16, "a SipHash key has 16 bytes");
    return {load_little_endian(bytes.data, 8), load_little_endian(bytes.data + 8, 8)};
}

constexpr int no_tag = -1;

// `tag` is appended to the message as one more byte; `no_tag` appends nothing (the published function).
inline uint64_t siphash(SipKey key, const uint8_t* bytes, size_t length, int tag) {
    SipHash24 state(key);
    const size_t whole = length / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) state.absorb(load_little_endian(bytes + i, 8));
    uint64_t last = load_little_endian(bytes + whole, length - whole);
    size_t total = length;
    if (tag >= 0) {
        last |= static_cast<uint64_t>(tag) << (8 * (length - whole));
        ++total;
        if (total % 8 == 0) {
            state.absorb(last);
            last = 0;
        }
    }
    state.absorb(last | static_cast<uint64_t>(total & 0xff) << 56);
    return state.finish();
}

}  // namespace sparsedp
