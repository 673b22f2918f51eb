// SipHash-2-4 of many messages at once, in as many lanes as the processor has; the bits are those of siphash.hpp.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "lanes.hpp"
#include "siphash.hpp"

namespace sparsedp {

// Kernels for one width, which take any number of messages: those that do not fill a pair of vectors go one by one.
template <size_t lanes>
struct SipKernels {
    static constexpr size_t pair = 2 * lanes;  // two vectors in progress: one alone would wait for its own results
    static constexpr size_t most_bytes = 127;  // longer messages are rare, and go one by one

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
            size_t least = given[i].length, most = least;
            for (size_t lane = 1; lane < pair; ++lane) {
                least = std::min(least, given[i + lane].length);
                most = std::max(most, given[i + lane].length);
            }
            if (most <= most_bytes) {
                of_similar_length(key, given + i, least, most, tag, out + i);
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

    // A vector of messages. Their words are loaded into the lanes from where they are: written next to each other
    // first, they would be read again before they have arrived in memory.
    class Group {
       public:
        SPARSEDP_INLINE Group(const Message* given, int tag) : given_(given) {
            Word length;
            fill_lanes<lanes>(length, [&](size_t lane) { return given[lane].length; });
            fill_lanes<lanes>(tail_, [&](size_t lane) {
                const Message& own = given[lane];
                return load_last(own.bytes + own.length, own.length % 8, own.length);
            });
            const Word total = length + (tag >= 0 ? 1 : 0);
            Word end;
            spread<lanes>(tag >= 0 ? static_cast<uint64_t>(tag) : 0, end);
            whole_ = length >> 3;
            words_ = (total >> 3) + 1;
            last_ = total << 56;
            tail_ |= end << ((length & 7) << 3);
            // The length has a word of its own if the tag has filled the one before.
            Word one_more;
            below(words_, whole_ + 2, one_more);
            tail_ |= last_ & one_more;
        }

        // A word that all messages have whole.
        SPARSEDP_INLINE void inner(size_t at, Word& out) const {
            fill_lanes<lanes>(out, [&](size_t lane) { return load_eight(given_[lane].bytes + 8 * at); });
        }

        // A word that some have whole; others have their last bytes, or their length, or have ended before it.
        SPARSEDP_INLINE void outer(size_t at, Word& out) const {
            fill_lanes<lanes>(out, [&](size_t lane) {
                return at < given_[lane].length / 8 ? load_eight(given_[lane].bytes + 8 * at) : 0;
            });
            Word here, is_whole, is_after;
            spread<lanes>(at, here);
            below(here, whole_, is_whole);
            below(whole_, here, is_after);
            out |= (last_ & is_after) | (tail_ & ~(is_whole | is_after));
        }

        // The lanes whose messages have this word.
        SPARSEDP_INLINE void having(size_t at, Word& out) const {
            Word here;
            spread<lanes>(at, here);
            below(here, words_, out);
        }

       private:
        // All bits of the lanes in which the first is less.
        SPARSEDP_INLINE static void below(const Word& first, const Word& second, Word& out) {
            if constexpr (lanes == 1) {
                out = first < second ? UINT64_MAX : 0;
            } else {
                out = reinterpret_cast<Word>(first < second);
            }
        }

        const Message* given_;
        Word whole_, words_, last_, tail_;
    };

    // A pair of vectors of messages. A message that has ended keeps its state while others go on.
    SPARSEDP_INLINE static void of_similar_length(SipKey key, const Message* given, size_t least, size_t most, int tag,
                                                  uint64_t* out) {
        const Group first(given, tag), second(given + lanes, tag);
        const size_t tags = tag >= 0 ? 1 : 0, all_have = (least + tags) / 8 + 1, some_have = (most + tags) / 8 + 1;
        State a(key), b(key);
        Word x, y;
        size_t at = 0;
        for (; at < least / 8; ++at) {
            first.inner(at, x);
            second.inner(at, y);
            a.absorb(x);
            b.absorb(y);
        }
        for (; at < all_have; ++at) {
            first.outer(at, x);
            second.outer(at, y);
            a.absorb(x);
            b.absorb(y);
        }
        for (; at < some_have; ++at) {
            State next_a = a, next_b = b;
            first.outer(at, x);
            second.outer(at, y);
            next_a.absorb(x);
            next_b.absorb(y);
            first.having(at, x);
            second.having(at, y);
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

// Of a width that the processor has: two lanes everywhere.
inline const Sip& sip_in(size_t lanes) {
#ifdef __x86_64__
    if (lanes == 8) return sip_of<Avx512Sip>;
    if (lanes == 4) return sip_of<Avx2Sip>;
#endif
    return lanes == 2 ? sip_of<PairsSip> : sip_of<PlainSip>;
}

// Nanoseconds for a few hundred integers, the best of some tries.
inline int64_t time_of(const Sip& sip) {
    constexpr size_t count = 512;
    uint64_t words[count], out[count];
    std::iota(words, words + count, 0);
    int64_t best = INT64_MAX;
    for (int turn = 0; turn < 5; ++turn) {
        const auto start = std::chrono::steady_clock::now();
        sip.two_words({words[0], out[0] = turn}, words, count, 0, 0, out);
        best = std::min<int64_t>(best, (std::chrono::steady_clock::now() - start).count());
    }
    return best;
}

// On x86, wider is quicker. Elsewhere there are two lanes at most (NEON), and processors differ in whether that is
// quicker than two words that rotate outside of vectors: the first use finds out. The bits are the same.
inline const Sip& quickest_sip() {
#ifdef __x86_64__
    static const Sip& quickest = sip_in(widest_lanes());
#else
    static const Sip& quickest = time_of(sip_in(2)) < time_of(sip_in(1)) ? sip_in(2) : sip_in(1);
#endif
    return quickest;
}

}  // namespace sparsedp
