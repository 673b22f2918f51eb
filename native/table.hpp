// A sorted table of ids and values, with a directory that narrows a lookup to a few ids.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arrays.hpp"
#include "memory.hpp"
#include "parallel.hpp"

namespace sparsedp {

inline int64_t find_sorted(const uint64_t* ids, size_t count, uint64_t id) {
    if (count == 0) return -1;
    size_t low = 0;
    for (size_t length = count; length > 1;) {
        const size_t half = length / 2;
        low += ids[low + half] <= id ? half : 0;
        length -= half;
    }
    return ids[low] == id ? static_cast<int64_t>(low) : -1;
}

// The number of bits that are set, without an instruction that not every processor has.
inline uint32_t count_bits(uint32_t word) {
    word -= word >> 1 & 0x55555555;
    word = (word & 0x33333333) + (word >> 2 & 0x33333333);
    return ((word + (word >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

// A view: the arrays belong to the caller. Ids that share their leading bits are in one bucket, about three uniform ids
// per bucket. The next five bits of each id are marked, so that most ids that are not in the table need not access it,
// and the marks below that of an id tell where it is. Where ids share a mark the bucket is searched, a crowded one by
// bisection.
class TableIndex {
   public:
    static constexpr size_t most_ids = UINT32_MAX;

    TableIndex(Span<const uint64_t> ids, Span<const int64_t> values) : ids_(ids.data), values_(values.data) {
        const size_t count = ids.size;
        require(count == values.size, "one value for each id");
        require(count <= most_ids, "a table has fewer than 2^32 ids");
        for (size_t i = 1; i < count; ++i)  // before memory is taken for as many as a file says that it has
            require(ids[i - 1] < ids[i], "the ids of a table must ascend");
        const uint64_t span = count == 0 ? 0 : ids[count - 1] - ids[0];
        lowest_ = count == 0 ? 0 : ids[0];
        while (shift_ < 63 && span >> shift_ >= std::max<uint64_t>(1, count / 2)) ++shift_;
        buckets_.reserve((span >> shift_) + 2);
        advise_large_pages(buckets_.data(), buckets_.capacity() * sizeof(Bucket));
        buckets_.resize((span >> shift_) + 2);
        size_t bucket = 0;
        for (size_t i = 0; i < count; ++i) {
            const size_t own = bucket_of(ids[i]);
            while (bucket < own) buckets_[++bucket].start = static_cast<uint32_t>(i);
            buckets_[own].marks |= mark(ids[i]);
        }
        while (++bucket < buckets_.size()) buckets_[bucket].start = static_cast<uint32_t>(count);
    }

    // A lookup in steps, so that a caller can prefetch the memory of each step while it works on other keys.
    size_t bucket_of(uint64_t id) const {
        // Ids below the lowest wrap around; whichever bucket they lead to, they are not found there.
        return static_cast<size_t>(std::min<uint64_t>((id - lowest_) >> shift_, buckets_.size() - 2));
    }
    void fetch_bucket(size_t bucket) const { __builtin_prefetch(buckets_.data() + bucket); }
    bool may_have(size_t bucket, uint64_t id) const { return buckets_[bucket].marks & mark(id); }

    // Where the id is, if it is in the table and no two ids of the bucket have the same mark. The bucket may have it.
    size_t guess(size_t bucket, uint64_t id) const {
        return buckets_[bucket].start + count_bits(buckets_[bucket].marks & (mark(id) - 1));
    }
    void fetch_guess(size_t bucket, uint64_t id) const { __builtin_prefetch(ids_ + guess(bucket, id)); }
    void fetch_value(int64_t at) const { __builtin_prefetch(values_ + at); }

    // The position of an id that the bucket may have, or -1.
    int64_t find(size_t bucket, uint64_t id) const {
        const size_t near = guess(bucket, id);
        const uint32_t begin = buckets_[bucket].start, end = buckets_[bucket + 1].start;
        const bool alone = count_bits(buckets_[bucket].marks) == end - begin;
        return ids_[near] == id ? static_cast<int64_t>(near) : alone ? -1 : search(begin, end, id);
    }

    int64_t find(uint64_t id) const {
        const size_t bucket = bucket_of(id);
        return may_have(bucket, id) ? find(bucket, id) : -1;
    }
    int64_t value(int64_t at) const { return values_[at]; }

    // For each id, whether it is stored, and its value or otherwise 0.
    void find_all(Span<const uint64_t> ids, bool* stored, int64_t* values) const {
        parallel_for(ids.size, size_t{1} << 15, [=](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) {
                const int64_t at = find(ids[i]);
                stored[i] = at >= 0;
                values[i] = at >= 0 ? value(at) : 0;
            }
        });
    }

   private:
    struct Bucket {
        uint32_t start = 0, marks = 0;
    };

    int64_t search(uint32_t begin, uint32_t end, uint64_t id) const {
        if (end - begin > 16) {
            const int64_t at = find_sorted(ids_ + begin, end - begin, id);
            return at < 0 ? -1 : at + begin;
        }
        int64_t at = -1;
        for (uint32_t i = begin; i < end; ++i) at = ids_[i] == id ? i : at;
        return at;
    }

    uint32_t mark(uint64_t id) const { return uint32_t{1} << ((id - lowest_) >> (shift_ - 5) & 31); }

    const uint64_t* ids_;
    const int64_t* values_;
    uint64_t lowest_;
    unsigned shift_ = 5;
    std::vector<Bucket> buckets_;
};

}  // namespace sparsedp
