// What is decided by random words: flips, noise, words that are cut, and rounding.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "buckets.hpp"
#include "checking.hpp"
#include "flips.hpp"
#include "noise.hpp"
#include "rounding.hpp"
#include "uniform.hpp"

namespace sparsedp::fuzz {

// Words of bits against a comparison of each bit's binary fraction with the numerator.
inline void try_flips(const std::vector<uint64_t>& random, uint64_t numerator, unsigned digits) {
    digits = 1 + digits % 63;
    numerator &= (uint64_t{1} << digits) - 1;
    std::vector<uint64_t> flipped(random.size() / digits);
    if (!is_taken([&] { flip({flipped.data(), flipped.size()}, span(random), numerator, digits); })) return;
    for (size_t i = 0; i < flipped.size(); ++i)
        for (unsigned bit = 0; bit < 64; ++bit) {
            uint64_t fraction = 0;
            for (unsigned j = 0; j < digits; ++j) fraction |= (random[i * digits + j] >> bit & 1) << j;
            check((flipped[i] >> bit & 1) == (fraction < numerator), "a bit is flipped that should not be, or is not");
        }
}

// Digits are those of the words below their thresholds; the two-sided draw has two more words in front.
inline void try_noise(const std::vector<uint64_t>& random, size_t digits) {
    digits = std::min(1 + digits % 70, random.size() / 2);
    const std::vector<uint64_t> thresholds(random.begin(), random.begin() + static_cast<std::ptrdiff_t>(digits));
    const auto magnitude = [&](size_t at) {
        uint64_t value = 0;
        for (size_t j = 0; j < digits; ++j)
            if (random[at + j] < thresholds[j]) value = j < 64 ? value | uint64_t{1} << j : UINT64_MAX;
        return value;
    };
    const bool geometric = is_taken([&] {
        const GeometricDraws draws(span(random), span(thresholds));
        for (size_t i = 0; i < draws.size(); ++i)
            check(draws(i) == magnitude(i * digits), "a geometric draw is not of its words");
    });
    check(geometric == (digits > 0 && random.size() % digits == 0), "words of draws were refused, or should have been");
    const uint64_t zero = random.empty() ? 0 : random.back();
    const bool two_sided = is_taken([&] {
        const TwoSidedDraws draws(span(random), zero, span(thresholds));
        for (size_t i = 0; i < draws.size(); ++i) {
            const size_t at = i * (digits + 2);
            const int64_t size = static_cast<int64_t>(magnitude(at + 2)) + 1, sign = random[at + 1] % 2 == 0 ? 1 : -1;
            check(draws(i) == (random[at] < zero ? 0 : sign * size), "a two-sided draw is not of its words");
        }
    });
    check(two_sided == (digits < 63 && random.size() % (digits + 2) == 0), "words of noise were refused, or not");
}

// Two words for each bound; a uniform word of 128 bits, times the bound, has the answer in front.
inline void try_uniform(const std::vector<uint64_t>& words, uint64_t seed) {
    std::vector<uint64_t> bounds(words.size() / 2);
    for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = seed >> (i % 64);
    if (!is_taken([&] {
            const UniformsBelow uniforms(span(bounds), span(words));
            for (size_t i = 0; i < bounds.size(); ++i)
                check(bounds[i] == 0 ? uniforms(i) == 0 : uniforms(i) < bounds[i], "a uniform integer is no smaller");
        }))
        check(words.size() % 2 == 1, "words of uniform integers were refused");
}

// The bucket of a word is the number of buckets that end before it. Of a bucket's words, that which is given is the
// product of a random number below 1 and the width, halved digit by digit; it is in the bucket that was asked for.
inline void try_cuts(const std::vector<uint64_t>& input, uint64_t choice, unsigned bits) {
    const bool likely = choice & 1;
    bits = likely ? 8 + bits % 57 : bits % 80;
    const uint64_t largest = bits >= 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
    const size_t count = std::min<size_t>(choice >> 1 & 63, input.size());
    const auto cut = input.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<uint64_t> lasts(input.begin(), cut);
    const std::vector<uint64_t> words(cut, input.end());
    if (likely) {
        for (uint64_t& last : lasts) last &= largest;
        lasts.push_back(largest);
        std::sort(lasts.begin(), lasts.end());
    } else if (choice >> 7 & 1) {
        lasts.push_back(largest);
    }
    const auto bucket_of = [&](uint64_t word) {
        size_t before = 0;
        while (lasts[before] < (word & largest)) ++before;
        return before;
    };
    bool right = bits >= 8 && bits <= 64 && !lasts.empty() && lasts.back() == largest;
    for (size_t i = 1; i < lasts.size(); ++i) right &= lasts[i - 1] <= lasts[i];
    const bool cuts = is_taken([&] {
        const CutWords buckets(span(words), span(lasts), bits);
        check(right && buckets.size() == words.size(), "wrong buckets were taken");
        for (size_t i = 0; i < words.size(); ++i)
            check(buckets(i) == static_cast<int64_t>(bucket_of(words[i])), "a word is in a wrong bucket");
    });
    check(cuts == right, "right buckets were refused");
    if (!right) return;

    std::vector<int64_t> asked(words.size() / 2);
    for (size_t i = 0; i < asked.size(); ++i)  // never one that has no words
        asked[i] = static_cast<int64_t>(bucket_of(words[i] ^ choice));
    const uint64_t wrong = choice >> 8 & 15;  // with these, one that does not exist
    if (wrong < 2 && !asked.empty()) asked.back() = wrong == 0 ? -1 : static_cast<int64_t>(lasts.size());
    const bool given = is_taken([&] {
        const WordsOfBuckets of_buckets(span(asked), span(lasts), span(words));
        for (size_t i = 0; i < asked.size(); ++i) {
            const auto bucket = static_cast<size_t>(asked[i]);
            const uint64_t first = bucket == 0 ? 0 : lasts[bucket - 1] + 1;
            const uint128 width = static_cast<uint128>(lasts[bucket] - first) + 1;
            uint128 above = 0;
            for (size_t digit = 0; digit < 128; ++digit)
                above = (above + (words[2 * i + digit / 64] >> (digit % 64) & 1) * width) / 2;
            check(of_buckets(i) == first + static_cast<uint64_t>(above), "a wrong word of a bucket");
            check(bucket_of(of_buckets(i)) == bucket, "a word of another bucket");
        }
    });
    check(given == (words.size() % 2 == 0 && (wrong >= 2 || asked.empty())), "buckets were refused, or not");
}

// Any doubles, rounded one by one and as sums of one each, which are the same where no value is negative; counts with a
// whole slope have nothing to be rounded.
inline void try_rounding(const std::vector<uint64_t>& words, uint64_t numerator, uint64_t denominator) {
    numerator = 1 + numerator % ((uint64_t{1} << 53) - 1);
    denominator = 1 + denominator % ((uint64_t{1} << 53) - 1);
    std::vector<double> values(words.size());
    if (!words.empty()) std::memcpy(values.data(), words.data(), 8 * words.size());
    for (double& value : values) value = std::fabs(value);
    std::vector<int64_t> rounded(values.size()), starts(values.size());
    for (size_t i = 0; i < starts.size(); ++i) starts[i] = static_cast<int64_t>(i);
    const size_t fit = round_to_grid(span(values), numerator, denominator, span(words), rounded.data());
    // Beyond 2^63 are values that have no exact product, and cells that have no integer.
    if (fit < values.size()) {
        const double cells = values[fit] * static_cast<double>(denominator) / static_cast<double>(numerator);
        const bool has_cell = values[fit] < 9e18 && cells < 9e18;
        check(!has_cell, "a value that has a cell was refused");
    }
    values.resize(fit);
    starts.resize(fit);
    const RoundedSums sums(span(values), span(starts), numerator, denominator, {words.data(), fit}, INT64_MAX);
    for (size_t i = 0; i < fit; ++i) check(sums(i) == rounded[i], "a sum of one value is rounded unlike the value");

    const uint64_t slope = 1 + numerator % 1000, levels = 1 + denominator % 100000;
    const UnaryHeights heights(span(words), levels, slope, 0, levels, span(words));
    for (size_t i = 0; i < words.size(); ++i)
        check(heights(i) == (words[i] < levels ? std::min(words[i] * slope, levels) : levels), "a wrong height");
}

}  // namespace sparsedp::fuzz
