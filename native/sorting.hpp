// Sorts pairs (id, value) by id: one parallel scatter by leading bits, then each bucket separately.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bits.hpp"
#include "parallel.hpp"

namespace sparsedp {

struct Pair {
    uint64_t id;
    int64_t value;
};

constexpr const char* changed_meanwhile = "keys must not change while they are sorted";

inline void insertion_sort(Pair* pairs, size_t count) {
    for (size_t i = 1; i < count; ++i) {
        const Pair pair = pairs[i];
        size_t at = i;
        for (; at > 0 && pairs[at - 1].id > pair.id; --at) pairs[at] = pairs[at - 1];
        pairs[at] = pair;
    }
}

// In place, by the leading bits in which the ids differ ("American flag"). Ids that share a long prefix cost no more
// than others; at most 64 bits are used up on the way down.
inline void sort_run(Pair* pairs, size_t count) {
    constexpr size_t few = 24;
    constexpr unsigned most_bits = 8;
    if (count <= few) {
        insertion_sort(pairs, count);
        return;
    }
    uint64_t differing = 0;
    for (size_t i = 1; i < count; ++i) differing |= pairs[i].id ^ pairs[0].id;
    if (differing == 0) return;
    const unsigned top = bit_length(differing);
    const unsigned bits = std::min({most_bits, top, bit_length(count) - 2});
    const unsigned shift = top - bits;
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    size_t next[size_t{1} << most_bits] = {}, ends[size_t{1} << most_bits];
    for (size_t i = 0; i < count; ++i) ++next[pairs[i].id >> shift & mask];
    size_t begin = 0;
    for (size_t b = 0; b <= mask; ++b) {
        const size_t size = next[b];
        next[b] = begin;
        begin += size;
        ends[b] = begin;
    }
    for (size_t b = 0; b <= mask; ++b)
        while (next[b] < ends[b]) {
            Pair pair = pairs[next[b]];
            for (size_t home; (home = pair.id >> shift & mask) != b;) std::swap(pair, pairs[next[home]++]);
            pairs[next[b]++] = pair;
        }
    if (shift == 0) return;
    begin = 0;
    for (size_t b = 0; b <= mask; ++b) {
        if (ends[b] - begin > 1) sort_run(pairs + begin, ends[b] - begin);
        begin = ends[b];
    }
}

// What determines how to sort: whether ids already ascend, and the bits in which they differ.
struct IdSurvey {
    bool ascending = true;
    uint64_t differing = 0;
};

template <typename IdAt>
IdSurvey survey(IdAt id_at, size_t count) {
    IdSurvey all;
    std::mutex guard;
    parallel_for(count, size_t{1} << 16, [&](size_t begin, size_t end) {
        IdSurvey part;
        const uint64_t first = id_at(0);
        uint64_t before = id_at(begin == 0 ? 0 : begin - 1);
        for (size_t i = begin; i < end; ++i) {
            const uint64_t id = id_at(i);
            part.ascending &= before <= id;
            part.differing |= id ^ first;
            before = id;
        }
        const std::scoped_lock lock(guard);
        all.ascending &= part.ascending;
        all.differing |= part.differing;
    });
    return all;
}

// The pairs (id_at(i), values[i]) in the order of their ids; pairs with equal ids come in any order. Ids are read more
// than once, and may belong to a caller who changes them meanwhile: that is noticed, and writes stay within the output.
template <typename IdAt>
void sort_pairs_by(IdAt id_at, const int64_t* values, size_t count, uint64_t* out_ids, int64_t* out_values) {
    constexpr size_t grain = size_t{1} << 16;
    constexpr unsigned most_bits = 11, bucket_bits = 12;
    const IdSurvey found = survey(id_at, count);
    if (found.ascending) {
        parallel_for(count, grain, [&](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) out_ids[i] = id_at(i);
            std::copy(values + begin, values + end, out_values + begin);
        });
        require(survey([=](size_t i) { return out_ids[i]; }, count).ascending, changed_meanwhile);
        return;
    }
    const unsigned top = bit_length(found.differing), wanted = bit_length(count >> bucket_bits);
    const unsigned bits = std::min({most_bits, top, wanted}), shift = top - bits;
    const size_t buckets = size_t{1} << bits;
    // bits = 0 has shift = top, which may be 64.
    const auto bucket_at = [&](uint64_t id) { return bits == 0 ? 0 : (id >> shift) & (buckets - 1); };

    // Each part counts its pairs, then writes them to its own share of each bucket.
    const size_t parts = std::min(thread_count(), count / grain + 1), share = (count - 1) / parts + 1;
    std::vector<size_t> at(parts * buckets, 0), edges(buckets + 1, count);
    const auto for_each_part = [&](auto visit) {
        parallel_for(parts, 1, [&](size_t first, size_t last) {
            for (size_t part = first; part < last; ++part)
                for (size_t i = part * share; i < std::min(count, (part + 1) * share); ++i) {
                    const uint64_t id = id_at(i);
                    visit(at[part * buckets + bucket_at(id)], id, i);
                }
        });
    };
    for_each_part([](size_t& slot, uint64_t, size_t) { ++slot; });
    size_t begin = 0;
    for (size_t b = 0; b < buckets; ++b) {
        edges[b] = begin;
        for (size_t part = 0; part < parts; ++part) begin += std::exchange(at[part * buckets + b], begin);
    }
    const std::vector<size_t> starts = at;
    for_each_part([&](size_t& slot, uint64_t id, size_t i) {
        require(slot < count, changed_meanwhile);
        out_ids[slot] = id;
        out_values[slot++] = values[i];
    });
    for (size_t b = 0; b < buckets; ++b)  // each share is full, to the start of the next one
        for (size_t part = 0; part < parts; ++part) {
            const size_t share_of = part * buckets + b;
            const size_t next = part + 1 < parts ? starts[share_of + buckets] : edges[b + 1];
            require(at[share_of] == next, changed_meanwhile);
        }
    parallel_for(buckets, 1, [&](size_t first, size_t last) {
        std::vector<Pair> pairs;
        for (size_t b = first; b < last; ++b) {
            const size_t start = edges[b], size = edges[b + 1] - start;
            pairs.resize(size);
            for (size_t i = 0; i < size; ++i) pairs[i] = {out_ids[start + i], out_values[start + i]};
            sort_run(pairs.data(), size);
            for (size_t i = 0; i < size; ++i) {
                out_ids[start + i] = pairs[i].id;
                out_values[start + i] = pairs[i].value;
            }
        }
    });
}

// The pairs (new_id(id), value) in the order of their new ids, which are never in memory unsorted.
template <typename NewId>
void sort_pairs(Span<const uint64_t> ids, Span<const int64_t> values, NewId new_id, uint64_t* out_ids,
                int64_t* out_values) {
    require(ids.size == values.size, "one value for each id");
    sort_pairs_by([=](size_t i) { return new_id(ids[i]); }, values.data, values.size, out_ids, out_values);
}

// How many pairs there are.
inline size_t checked_pairs(Span<uint64_t> ids, Span<int64_t> values, int64_t limit) {
    require(ids.size == values.size, "one value for each id");
    require(limit >= 0, "a limit is not negative");
    return ids.size;
}

// Sums the values of equal, adjacent ids in place; returns the number of pairs left. Sums are exact, and every sum is
// cut to ±limit, even that of a single value: what happens to a key must not depend on others.
inline size_t sum_runs(Span<uint64_t> ids, Span<int64_t> values, int64_t limit) {
    const size_t count = checked_pairs(ids, values, limit);
    size_t left = 0;
    for (size_t i = 0; i < count;) {
        const uint64_t id = ids[i];
        __int128 sum = values[i++];
        for (; i < count && ids[i] == id; ++i) sum += values[i];
        ids[left] = id;
        values[left++] = static_cast<int64_t>(std::clamp<__int128>(sum, -limit, limit));
    }
    return left;
}

// Cuts values to ±limit and drops pairs with the value zero, in place; returns the number of pairs left.
inline size_t cut_pairs(Span<uint64_t> ids, Span<int64_t> values, int64_t limit) {
    const size_t count = checked_pairs(ids, values, limit);
    size_t left = 0;
    for (size_t i = 0; i < count; ++i) {
        const int64_t value = std::clamp(values[i], -limit, limit);
        ids[left] = ids[i];
        values[left] = value;
        left += value != 0;
    }
    return left;
}

}  // namespace sparsedp
