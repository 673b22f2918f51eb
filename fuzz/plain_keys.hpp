// Keys to fingerprints as the documents define them, byte for byte and without any haste.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "siphash.hpp"

namespace sparsedp::fuzz {

using Bytes = std::vector<uint8_t>;

// SipHash-2-4 of the bytes and the tag: padded to whole words, the last byte being the length.
inline uint64_t plain_hash(SipKey key, Bytes message, char tag) {
    message.push_back(static_cast<uint8_t>(tag));
    const auto length = static_cast<uint8_t>(message.size());
    while (message.size() % 8 != 7) message.push_back(0);
    message.push_back(length);
    uint64_t a = key.k0 ^ 0x736f6d6570736575, b = key.k1 ^ 0x646f72616e646f6d;
    uint64_t c = key.k0 ^ 0x6c7967656e657261, d = key.k1 ^ 0x7465646279746573;
    const auto turned = [](uint64_t x, unsigned by) { return x << by | x >> (64 - by); };
    const auto rounds = [&](int count) {
        for (; count > 0; --count) {
            a += b, c += d;
            b = turned(b, 13) ^ a, d = turned(d, 16) ^ c;
            a = turned(a, 32);
            c += b, a += d;
            b = turned(b, 17) ^ c, d = turned(d, 21) ^ a;
            c = turned(c, 32);
        }
    };
    for (size_t at = 0; at < message.size(); at += 8) {
        uint64_t word = 0;
        for (size_t i = 8; i-- > 0;) word = word << 8 | message[at + i];
        d ^= word;
        rounds(2);
        a ^= word;
    }
    c ^= 0xff;
    rounds(4);
    return a ^ b ^ c ^ d;
}

// Eight bytes in two's complement, the lowest first.
inline Bytes plain_integer(uint64_t bits) {
    Bytes out;
    for (int i = 0; i < 8; ++i) out.push_back(static_cast<uint8_t>(bits >> (8 * i)));
    return out;
}

// RFC 3629, one line of its table after the other.
inline void append_utf8(Bytes& out, uint32_t c) {
    const auto byte = [&](uint32_t bits) { out.push_back(static_cast<uint8_t>(bits)); };
    if (c <= 0x7f) {
        byte(c);
    } else if (c <= 0x7ff) {
        byte(0xc0 + (c >> 6));
        byte(0x80 + (c & 63));
    } else if (c <= 0xffff) {
        byte(0xe0 + (c >> 12));
        byte(0x80 + (c >> 6 & 63));
        byte(0x80 + (c & 63));
    } else {
        byte(0xf0 + (c >> 18));
        byte(0x80 + (c >> 12 & 63));
        byte(0x80 + (c >> 6 & 63));
        byte(0x80 + (c & 63));
    }
}

}  // namespace sparsedp::fuzz
