// SipHash-2-4 (Aumasson and Bernstein, 2012) of a message followed by an optional one-byte type tag.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arrays.hpp"
#include "lanes.hpp"

namespace sparsedp {

struct SipKey {
    uint64_t k0, k1;
};

// The states of as many messages as there are lanes.
template <size_t lanes>
class SipState {
   public:
    using Word = typename Lanes<lanes>::Words;

    SPARSEDP_INLINE explicit SipState(SipKey key) {
        spread<lanes>(key.k0 ^ 0x736f6d6570736575ULL, v0);
        spread<lanes>(key.k1 ^ 0x646f72616e646f6dULL, v1);
        spread<lanes>(key.k0 ^ 0x6c7967656e657261ULL, v2);
        spread<lanes>(key.k1 ^ 0x7465646279746573ULL, v3);
    }

    // The variant with 128 bits of output, in two words, has a different initial state.
    SPARSEDP_INLINE void make_wide() { v1 ^= 0xee; }

    SPARSEDP_INLINE void absorb(const Word& block) {
        v3 ^= block;
        round();
        round();
        v0 ^= block;
    }

    SPARSEDP_INLINE void finish(Word& out) {
        v2 ^= 0xff;
        finish_rounds(out);
    }

    SPARSEDP_INLINE void finish_wide(Word* out, int words) {
        v2 ^= 0xee;
        finish_rounds(out[0]);
        if (words == 1) return;
        v1 ^= 0xdd;
        finish_rounds(out[1]);
    }

    // Takes the state of another where the bits of `where` are set.
    SPARSEDP_INLINE void take(const SipState& other, const Word& where) {
        v0 = (other.v0 & where) | (v0 & ~where);
        v1 = (other.v1 & where) | (v1 & ~where);
        v2 = (other.v2 & where) | (v2 & ~where);
        v3 = (other.v3 & where) | (v3 & ~where);
    }

   private:
    SPARSEDP_INLINE void round() {
        // clang-format off: a line for each step of the paper's figure
        v0 += v1; rotate<lanes, 13>(v1); v1 ^= v0; rotate<lanes, 32>(v0);
        v2 += v3; rotate<lanes, 16>(v3); v3 ^= v2;
        v0 += v3; rotate<lanes, 21>(v3); v3 ^= v0;
        v2 += v1; rotate<lanes, 17>(v1); v1 ^= v2; rotate<lanes, 32>(v2);
        // clang-format on
    }

    SPARSEDP_INLINE void finish_rounds(Word& out) {
        round();
        round();
        round();
        round();
        out = v0 ^ v1 ^ v2 ^ v3;
    }

    Word v0, v1, v2, v3;
};

using SipHash24 = SipState<1>;

inline uint64_t load_eight(const uint8_t* bytes) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    return word;
}

// The last `count` < 8 bytes of a message, which end before `end`; `length` bytes before it may be read.
inline uint64_t load_last(const uint8_t* end, size_t count, size_t length) {
    if (length >= 8) return load_eight(end - 8) >> 1 >> (63 - 8 * count);
    if (count == 0) return 0;
    const uint8_t* bytes = end - count;
    if (count < 4)
        return bytes[0] | static_cast<uint64_t>(bytes[count / 2]) << (count / 2 * 8) |
               static_cast<uint64_t>(bytes[count - 1]) << (8 * (count - 1));
    uint32_t low, high;
    std::memcpy(&low, bytes, 4);
    std::memcpy(&high, end - 4, 4);
    return low | static_cast<uint64_t>(high) << (8 * (count - 4));
}

inline SipKey sip_key(Span<const uint8_t> bytes) {
    require(bytes.size == 16, "a SipHash key has 16 bytes");
    return {load_eight(bytes.data), load_eight(bytes.data + 8)};
}

constexpr int no_tag = -1;

// A message and how it ends: `tag` is appended as one more byte; `no_tag` appends nothing (the published function). The
// words that SipHash absorbs are those of the bytes, and then one with the number of bytes in its highest byte.
struct Message {
    const uint8_t* bytes;
    size_t length;

    size_t words(int tag) const { return (length + (tag >= 0 ? 1 : 0)) / 8 + 1; }

    // Hands the words to absorb(word), one after the other.
    template <typename Absorb>
    SPARSEDP_INLINE void each_word(int tag, Absorb absorb) const {
        const size_t rest = length % 8, whole = length - rest;
        for (size_t i = 0; i < whole; i += 8) absorb(load_eight(bytes + i));
        uint64_t last = load_last(bytes + length, rest, length);
        size_t total = length;
        if (tag >= 0) {
            last |= static_cast<uint64_t>(tag) << (8 * rest);
            ++total;
            if (rest == 7) {
                absorb(last);
                last = 0;
            }
        }
        absorb(last | static_cast<uint64_t>(total & 0xff) << 56);
    }
};

inline uint64_t siphash(SipKey key, const uint8_t* bytes, size_t length, int tag) {
    SipHash24 state(key);
    Message{bytes, length}.each_word(tag, [&](uint64_t word) { state.absorb(word); });
    uint64_t out;
    state.finish(out);
    return out;
}

}  // namespace sparsedp
