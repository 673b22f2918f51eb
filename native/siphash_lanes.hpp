// SipHash-2-4 of many messages at once, in as many lanes as the processor has; the bits are those of siphash.hpp.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lanes.hpp"
#include "siphash.hpp"

namespace sparsedp {

// Kernels for one width, which take any number of messages: those that do not fill a pair of vectors go one by one.
template <size_t lanes>
struct SipKernels {
    static constexpr size_t pair = 2 * lanes;  // two vectors in progress: one alone would wait for its own results
    static constexpr size_t most_words = 16;   // longer messages are rare, and go one by one

    using State = SipState<lanes>;
    using Word = typename Lanes<lanes>::Words;

    // Messages of two words: each of `firsts`, and then `last`, with the bits `if_large` flipped where the first is at
    // least 2^63.
    SPARSEDP_INLINE static void two_words(SipKey key, const uint64_t* firsts, size_t count, uint64_t last,
                                          uint64_t if_large, uint64_t* out) {
        size_t i = 0;
        for (; i + pair <= count; i += pair) {
            State a(key), b(key);
            Word x, y;
            load(x, firsts + i);
            load(y, firsts + i + lanes);
            a.absorb(x);
            b.absorb(y);
            a.absorb(last ^ (if_large & -(x >> 63)));
            b.absorb(last ^ (if_large & -(y >> 63)));
            a.finish(x);
            b.finish(y);
            store(x, out + i);
            store(y, out + i + lanes);
        }
        for (; i < count; ++i) {
            SipHash24 state(key);
            state.absorb(firsts[i]);
            state.absorb(last ^ (if_large & -(firsts[i] >> 63)));
            state.finish(out[i]);
        }
    }

    // The same with 64 or 128 bits of output: out[0] and, if there are two words, out[1].
    SPARSEDP_INLINE static void wide(SipKey key, const uint64_t* firsts, size_t count, uint64_t last, int words,
                                     uint64_t* const* out) {
        Word ending;
        spread<lanes>(last, ending);
        size_t i = 0;
        for (; i + pair <= count; i += pair) {
            State a(key), b(key);
            Word x[2], y[2];
            load(x[0], firsts + i);
            load(y[0], firsts + i + lanes);
            a.make_wide();
            b.make_wide();
            a.absorb(x[0]);
            b.absorb(y[0]);
            a.absorb(ending);
            b.absorb(ending);
            a.finish_wide(x, words);
            b.finish_wide(y, words);
            for (int half = 0; half < words; ++half) {
                store(x[half], out[half] + i);
                store(y[half], out[half] + i + lanes);
            }
        }
        for (; i < count; ++i) {
            SipHash24 state(key);
            state.make_wide();
            state.absorb(firsts[i]);
            state.absorb(last);
            uint64_t halves[2];
            state.finish_wide(halves, words);
            for (int half = 0; half < words; ++half) out[half][i] = halves[half];
        }
    }

    // Messages of any length, each with the same tag at its end.
    SPARSEDP_INLINE static void messages(SipKey key, const Message* given, size_t count, int tag, uint64_t* out) {
        size_t i = 0;
        for (; i + pair <= count; i += pair) {
            uint64_t counts[pair];
            size_t most = 0, least = most_words;
            for (size_t lane = 0; lane < pair; ++lane) {
                counts[lane] = given[i + lane].words(tag);
                most = std::max<size_t>(most, counts[lane]);
                least = std::min<size_t>(least, counts[lane]);
            }
            if (most <= most_words) {
                of_similar_length(key, given + i, counts, least, most, tag, out + i);
            } else {
                one_by_one(key, given + i, pair, tag, out + i);
            }
        }
        one_by_one(key, given + i, count - i, tag, out + i);
    }

   private:
    SPARSEDP_INLINE static void load(Word& word, const uint64_t* from) { std::memcpy(&word, from, sizeof word); }
    SPARSEDP_INLINE static void store(const Word& word, uint64_t* to) { std::memcpy(to, &word, sizeof word); }

    SPARSEDP_INLINE static void one_by_one(SipKey key, const Message* given, size_t count, int tag, uint64_t* out) {
        for (size_t i = 0; i < count; ++i) out[i] = siphash(key, given[i].bytes, given[i].length, tag);
    }

    // A pair of vectors of messages. A message that has ended keeps its state while others go on.
    SPARSEDP_INLINE static void of_similar_length(SipKey key, const Message* given, const uint64_t* counts,
                                                  size_t least, size_t most, int tag, uint64_t* out) {
        uint64_t words[most_words][pair];
        for (size_t lane = 0; lane < pair; ++lane) {
            size_t at = 0;
            given[lane].each_word(tag, [&](uint64_t word) { words[at++][lane] = word; });
            for (; at < most; ++at) words[at][lane] = 0;
        }
        State a(key), b(key);
        Word x, y;
        for (size_t at = 0; at < least; ++at) {
            load(x, words[at]);
            load(y, words[at] + lanes);
            a.absorb(x);
            b.absorb(y);
        }
        for (size_t at = least; at < most; ++at) {
            State next_a = a, next_b = b;
            load(x, words[at]);
            load(y, words[at] + lanes);
            next_a.absorb(x);
            next_b.absorb(y);
            uint64_t goes_on[pair];
            for (size_t lane = 0; lane < pair; ++lane) goes_on[lane] = at < counts[lane] ? UINT64_MAX : 0;
            load(x, goes_on);
            load(y, goes_on + lanes);
            a.take(next_a, x);
            b.take(next_b, y);
        }
        a.finish(x);
        b.finish(y);
        store(x, out);
        store(y, out + lanes);
    }
};

// One kernel for each width, with the instructions that the width needs.
// NOLINTBEGIN(bugprone-macro-parentheses): the instructions are an attribute, which cannot be in parentheses
#define SPARSEDP_SIP_KERNELS(name, lanes, instructions)                                                             \
    struct name {                                                                                                   \
        instructions static void two_words(SipKey key, const uint64_t* firsts, size_t count, uint64_t last,         \
                                           uint64_t if_large, uint64_t* out) {                                      \
            SipKernels<lanes>::two_words(key, firsts, count, last, if_large, out);                                  \
        }                                                                                                           \
        instructions static void wide(SipKey key, const uint64_t* firsts, size_t count, uint64_t last, int words,   \
                                      uint64_t* const* out) {                                                       \
            SipKernels<lanes>::wide(key, firsts, count, last, words, out);                                          \
        }                                                                                                           \
        instructions static void messages(SipKey key, const Message* given, size_t count, int tag, uint64_t* out) { \
            SipKernels<lanes>::messages(key, given, count, tag, out);                                               \
        }                                                                                                           \
    }
// NOLINTEND(bugprone-macro-parentheses)

SPARSEDP_SIP_KERNELS(PlainSip, 1, );
SPARSEDP_SIP_KERNELS(PairsSip, 2, );
#ifdef __x86_64__
SPARSEDP_SIP_KERNELS(Avx2Sip, 4, __attribute__((target("avx2"))));
SPARSEDP_SIP_KERNELS(Avx512Sip, 8, __attribute__((target("avx512f"))));
#endif

// The kernels of one width.
struct Sip {
    void (*two_words)(SipKey, const uint64_t*, size_t, uint64_t, uint64_t, uint64_t*);
    void (*wide)(SipKey, const uint64_t*, size_t, uint64_t, int, uint64_t* const*);
    void (*messages)(SipKey, const Message*, size_t, int, uint64_t*);
};

template <typename Kernels>
inline constexpr Sip sip_of = {&Kernels::two_words, &Kernels::wide, &Kernels::messages};

// Of a width that the processor has: at most widest_lanes().
inline const Sip& sip_in(size_t lanes) {
#ifdef __x86_64__
    if (lanes == 8) return sip_of<Avx512Sip>;
    if (lanes == 4) return sip_of<Avx2Sip>;
#endif
    return lanes == 2 ? sip_of<PairsSip> : sip_of<PlainSip>;
}

inline const Sip& widest_sip() {
    static const Sip& widest = sip_in(widest_lanes());
    return widest;
}

}  // namespace sparsedp
