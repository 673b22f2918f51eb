// Several keys hashed at once, in every width that this machine has and in eight lanes, against one key after the
// other.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "checking.hpp"
#include "key_batch.hpp"
#include "key_targets.hpp"
#include "lanes.hpp"
#include "plain_keys.hpp"
#include "siphash_lanes.hpp"

namespace sparsedp::fuzz {

// The source of eight lanes in plain instructions, for machines without AVX-512.
SPARSEDP_SIP_KERNELS(EightsSip, 8, );

inline void try_integers(SipKey key, const std::vector<uint64_t>& bits) {
    const std::vector<uint64_t> small = ids_of(IntegerKeys(key, span(bits), true));
    const std::vector<uint64_t> large = ids_of(IntegerKeys(key, span(bits), false));
    for (size_t i = 0; i < bits.size(); ++i) {
        check(small[i] == plain_hash(key, plain_integer(bits[i]), 'i'),
              "signed integers are hashed unlike their bytes");
        const char tag = bits[i] >> 63 ? 'u' : 'i';
        check(large[i] == plain_hash(key, plain_integer(bits[i]), tag),
              "unsigned integers are hashed unlike their bytes");
    }
}

inline void try_wide(const Sip& sip, SipKey key, const std::vector<uint64_t>& ids, uint64_t last) {
    std::vector<uint64_t> low(ids.size()), high(ids.size());
    uint64_t* const out[2] = {low.data(), high.data()};
    sip.wide(key, ids.data(), ids.size(), last, 2, out);
    for (size_t i = 0; i < ids.size(); ++i) {
        SipHash24 state(key);
        state.make_wide();
        state.absorb(ids[i]);
        state.absorb(last);
        uint64_t plain[2];
        state.finish_wide(plain, 2);
        check(low[i] == plain[0] && high[i] == plain[1], "128 bits differ between lanes and one key");
    }
}

// Messages are cut from the bytes at the words, so that they have all kinds of lengths.
inline void try_messages(const Sip& sip, SipKey key, const std::vector<uint64_t>& cuts, const Bytes& bytes, char tag) {
    std::vector<Bytes> own;
    std::vector<Message> messages;
    for (const uint64_t cut : cuts) {
        const size_t begin = cut % (bytes.size() + 1), most = (cut >> 32) % 40 == 0 ? 200 : 31;
        const size_t length = std::min<size_t>((cut >> 16 & 0xffff) % (most + 1), bytes.size() - begin);
        own.emplace_back(bytes.data() + begin, bytes.data() + begin + length);
    }
    messages.reserve(own.size());
    for (const Bytes& message : own) messages.push_back({message.data(), message.size()});
    std::vector<uint64_t> hashed(own.size());
    sip.messages(key, messages.data(), messages.size(), tag, hashed.data());
    for (size_t i = 0; i < own.size(); ++i)
        check(hashed[i] == plain_hash(key, own[i], tag), "a message is hashed unlike its bytes");
}

inline void try_lanes(uint64_t seed, const std::vector<uint64_t>& words, const Bytes& bytes) {
    const SipKey key{seed, ~seed * 0x9e3779b97f4a7c15ULL};
    try_integers(key, words);
    for (const size_t lanes : {1, 2, 4, 8}) {
        if (lanes > std::max<size_t>(2, widest_lanes())) continue;  // two need nothing that a compiler does not assume
        try_wide(sip_in(lanes), key, words, seed >> 8);
        try_messages(sip_in(lanes), key, words, bytes, 's');
    }
    try_wide(sip_of<EightsSip>, key, words, seed >> 8);
    try_messages(sip_of<EightsSip>, key, words, bytes, 's');
}

}  // namespace sparsedp::fuzz
