// Words side by side in the lanes of a vector, in one source for every width; how many this machine computes at once.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

// Into every caller, whose instructions a body then has: a caller for wider vectors makes it one for wider vectors.
#define SPARSEDP_INLINE [[gnu::always_inline]] inline

namespace sparsedp {

// A vector is only passed on by reference: how one is passed by value depends on the instructions that a caller has.
template <size_t count>
struct Lanes {
    using Words __attribute__((vector_size(8 * count))) = uint64_t;
    using Halves __attribute__((vector_size(8 * count))) = uint32_t;
    using Quarters __attribute__((vector_size(8 * count))) = uint16_t;
};

template <>
struct Lanes<1> {
    using Words = uint64_t;
};

// The same word in every lane.
template <size_t lanes>
SPARSEDP_INLINE void spread(uint64_t word, typename Lanes<lanes>::Words& out) {
    uint64_t same[lanes];
    std::fill(same, same + lanes, word);
    std::memcpy(&out, same, sizeof out);
}

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define SPARSEDP_SHUFFLES 1
#endif
#endif

#ifdef SPARSEDP_SHUFFLES
// Two halves next to each other.
template <typename Half, typename Words, size_t... i>
SPARSEDP_INLINE void join(const Half& low, const Half& high, Words& out, std::index_sequence<i...>) {
    out = __builtin_shufflevector(low, high, i...);
}

// Rotates every word by whole quarters, as a permutation of all quarters.
template <size_t by, typename Quarters, typename Words, size_t... i>
SPARSEDP_INLINE void rotate_quarters(Words& x, std::index_sequence<i...>) {
    x = reinterpret_cast<Words>(__builtin_shufflevector(reinterpret_cast<Quarters>(x), reinterpret_cast<Quarters>(x),
                                                        (i / 4 * 4 + (i + 4 - by) % 4)...));
}

template <typename Halves, typename Words, size_t... i>
SPARSEDP_INLINE void swap_halves(Words& x, std::index_sequence<i...>) {
    x = reinterpret_cast<Words>(
        __builtin_shufflevector(reinterpret_cast<Halves>(x), reinterpret_cast<Halves>(x), (i ^ 1)...));
}
#endif

// A word of its own in every lane, from the first lane on. Halves are filled apart and joined: compilers fill a vector
// of eight words one after the other, each waiting for the one before.
template <size_t lanes, typename WordOf>
SPARSEDP_INLINE void fill_lanes(typename Lanes<lanes>::Words& out, WordOf word_of, size_t first = 0) {
    if constexpr (lanes == 1) {
        out = word_of(first);
    } else if constexpr (lanes == 2) {
        out = typename Lanes<2>::Words{word_of(first), word_of(first + 1)};
    } else {
#ifdef SPARSEDP_SHUFFLES
        typename Lanes<lanes / 2>::Words low, high;
        fill_lanes<lanes / 2>(low, word_of, first);
        fill_lanes<lanes / 2>(high, word_of, first + lanes / 2);
        join(low, high, out, std::make_index_sequence<lanes>{});
#else
        for (size_t lane = 0; lane < lanes; ++lane) out[lane] = word_of(first + lane);
#endif
    }
}

// Without an instruction that rotates 64 bits (2 and 4 lanes), permuting bytes takes one where shifting takes three.
template <size_t lanes, int by>
SPARSEDP_INLINE void rotate(typename Lanes<lanes>::Words& x) {
#ifdef SPARSEDP_SHUFFLES
    constexpr bool permuted = lanes == 2 || lanes == 4;
#else
    constexpr bool permuted = false;
#endif
    if constexpr (permuted && by == 32) {
        swap_halves<typename Lanes<lanes>::Halves>(x, std::make_index_sequence<2 * lanes>{});
    } else if constexpr (permuted && by == 16) {
        rotate_quarters<1, typename Lanes<lanes>::Quarters>(x, std::make_index_sequence<4 * lanes>{});
    } else {
        x = x << by | x >> (64 - by);
    }
}

// Vectors of 8, 4 or 2 words, as the processor has them. Elsewhere it is for the caller to find out what is quicker.
inline size_t widest_lanes() {
#ifdef __x86_64__
    static const size_t widest = __builtin_cpu_supports("avx512f") ? 8 : __builtin_cpu_supports("avx2") ? 4 : 2;
    return widest;
#else
    return 1;
#endif
}

}  // namespace sparsedp
