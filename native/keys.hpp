// From keys to 64-bit fingerprints: canonical bytes are the payload and one type tag (src/sparsedp/keys/hashing.py).
#pragma once
#include <cstddef>
#include <cstdint>

#include "siphash.hpp"

namespace sparsedp {

enum KeyTag : uint8_t { text_tag = 's', bytes_tag = 'b', integer_tag = 'i', large_integer_tag = 'u' };

// The second word of an integer's message: its tag, and the number of bytes.
inline uint64_t last_word(KeyTag tag) { return static_cast<uint64_t>(tag) | uint64_t{9} << 56; }

inline uint64_t hash_integer(SipKey key, uint64_t bits, KeyTag tag) {
    // Eight little-endian bytes and the tag, written out: one whole block and one last block.
    SipHash24 state(key);
    state.absorb(bits);
    state.absorb(last_word(tag));
    uint64_t out;
    state.finish(out);
    return out;
}

inline uint64_t hash_signed(SipKey key, int64_t value) {
    return hash_integer(key, static_cast<uint64_t>(value), integer_tag);
}

inline uint64_t hash_unsigned(SipKey key, uint64_t value) {
    return hash_integer(key, value, value >> 63 ? large_integer_tag : integer_tag);
}

// A code point that text may have: any but the surrogates, which UTF-8 cannot encode.
inline bool is_letter(uint32_t c) { return c < 0xd800 || (c >= 0xe000 && c <= 0x10ffff); }

// Unicode code points as UTF-8, at most four bytes for each; returns the number of bytes.
inline size_t encode_utf8(const uint32_t* letters, size_t count, uint8_t* out) {
    uint8_t* at = out;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t c = letters[i];
        if (c < 0x80) {
            *at++ = static_cast<uint8_t>(c);
            continue;
        }
        const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static constexpr uint8_t lead[4] = {0, 0xc0, 0xe0, 0xf0};
        *at++ = static_cast<uint8_t>(lead[more] | c >> (6 * more));
        for (int j = more - 1; j >= 0; --j) *at++ = static_cast<uint8_t>(0x80 | (c >> (6 * j) & 0x3f));
    }
    return static_cast<size_t>(at - out);
}

}  // namespace sparsedp
