// Words cut into runs, the buckets: which of them a word is in, and uniform words of a given one.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arrays.hpp"
#include "bits.hpp"
#include "universal.hpp"

namespace sparsedp {

// The bucket of a number of `bits` bits: `lasts` are the largest numbers of the buckets, ascending. The leading bits of
// the number give the first bucket that it may be in, which is nearly always close to the right one. Near the two ends,
// where laws of noise have many narrow buckets, cells of the distance from the end do: those of y have the leading bits
// of y, at a place that follows its size, so that buckets that narrow by a constant factor are a few in each cell.
class BucketIndex {
   public:
    BucketIndex(const uint64_t* lasts, size_t count, unsigned bits)
        : lasts_(lasts),
          mask_(bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1),
          kept_(bit_length(count / bits) + 1) {
        const unsigned leading = std::min(bits, most_leading);
        shift_ = bits - leading;
        Climber climber{lasts, count - 1};
        for (size_t top = 0; top < size_t{1} << leading; ++top)
            first_[top] = climber(static_cast<uint64_t>(top) << shift_);
        first_[size_t{1} << leading] = static_cast<uint32_t>(count - 1);

        const size_t cells = cell(mask_ / 2) + 2;  // the last one begins behind the middle
        from_start_.reserve(cells);
        climber.bucket = 0;
        for (size_t c = 0; c < cells; ++c) from_start_.push_back(climber(start_of(c)));
        from_end_.resize(cells);
        climber.bucket = 0;
        for (size_t c = cells; c-- > 0;) from_end_[c] = climber(mask_ - start_of(c));
    }

    size_t operator()(uint64_t number) const {
        number &= mask_;
        const size_t top = number >> shift_;
        uint32_t bucket = first_[top];
        const uint32_t last = first_[top + 1];
        if (last - bucket > few) return of_the_ends(number);
        while (bucket < last && lasts_[bucket] < number) ++bucket;
        return bucket;
    }

   private:
    static constexpr unsigned most_leading = 11;  // so many that few of them leave a choice, which costs a wrong guess
    static constexpr uint32_t few = 8;

    // The buckets of ascending numbers.
    struct Climber {
        const uint64_t* lasts;
        size_t last;
        size_t bucket = 0;

        uint32_t operator()(uint64_t number) {
            while (bucket < last && lasts[bucket] < number) ++bucket;
            return static_cast<uint32_t>(bucket);
        }
    };

    size_t of_the_ends(uint64_t number) const {
        const bool low = number <= mask_ / 2;
        const size_t c = cell(low ? number : mask_ - number);
        const uint32_t from = low ? from_start_[c] : from_end_[c + 1];
        const uint32_t to = low ? from_start_[c + 1] : from_end_[c];
        return std::lower_bound(lasts_ + from, lasts_ + to, number) - lasts_;
    }

    // The cells of distances: 1 + kept_ leading bits, and how many bits follow.
    size_t cell(uint64_t distance) const {
        const unsigned follow = bit_length(distance >> kept_ | 1) - 1;
        return (size_t{follow} << kept_) + (distance >> follow);
    }
    uint64_t start_of(size_t cell) const {
        if (cell >> kept_ < 2) return cell;
        const size_t follow = (cell >> kept_) - 1;
        return static_cast<uint64_t>(cell - (follow << kept_)) << follow;
    }

    const uint64_t* lasts_;
    uint64_t mask_;
    unsigned kept_, shift_;
    uint32_t first_[(size_t{1} << most_leading) + 1];
    std::vector<uint32_t> from_start_, from_end_;
};

inline void require_buckets(Span<const uint64_t> lasts, unsigned bits) {
    require(bits >= 8 && bits <= 64 && lasts.size > 0 && lasts.size <= UINT32_MAX,
            "words have 8..64 bits, and buckets");
    require(lasts[lasts.size - 1] == (bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1),
            "every word is in a bucket");
    require(std::is_sorted(lasts.data, lasts.data + lasts.size), "buckets ascend");
}

// The bucket of each word.
class CutWords {
   public:
    CutWords(Span<const uint64_t> words, Span<const uint64_t> lasts, unsigned bits)
        : words_(words), index_((require_buckets(lasts, bits), lasts.data), lasts.size, bits) {}

    size_t size() const { return words_.size; }
    int64_t operator()(size_t i) const { return static_cast<int64_t>(index_(words_[i])); }

   private:
    Span<const uint64_t> words_;
    BucketIndex index_;
};

// A uniform number of each given bucket, from two random words: floor(word128 * width / 2^128) above its first number.
class WordsOfBuckets {
   public:
    WordsOfBuckets(Span<const int64_t> buckets, Span<const uint64_t> lasts, Span<const uint64_t> words)
        : buckets_(buckets), lasts_(lasts), words_(words) {
        require(words.size == 2 * buckets.size, "two words for each bucket");
        for (size_t i = 0; i < buckets.size; ++i)
            require(buckets[i] >= 0 && static_cast<uint64_t>(buckets[i]) < lasts.size, "no such bucket");
    }

    size_t size() const { return buckets_.size; }
    uint64_t operator()(size_t i) const {
        const auto bucket = static_cast<size_t>(buckets_[i]);
        const uint64_t first = bucket == 0 ? 0 : lasts_[bucket - 1] + 1;
        const uint128 width = static_cast<uint128>(lasts_[bucket] - first) + 1;
        const uint128 low = words_[2 * i] * width >> 64;
        return first + static_cast<uint64_t>((words_[2 * i + 1] * width + low) >> 64);
    }

   private:
    Span<const int64_t> buckets_;
    Span<const uint64_t> lasts_, words_;
};

}  // namespace sparsedp
