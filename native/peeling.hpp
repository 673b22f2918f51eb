// The order in which a sparse system is solved: repeatedly, all keys that are alone in one of their slots leave.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "appending.hpp"
#include "memory.hpp"
#include "parallel.hpp"
#include "retrieval.hpp"

namespace sparsedp {

// A word sums up the keys of a slot: its lowest bits are their number, and the others are the sum of the keys, which is
// the key itself if it is alone. Sums do not depend on the order in which threads add.
template <typename Word>
struct SlotSum {
    static constexpr unsigned degree_bits = sizeof(Word) == 4 ? 5 : 30;
    static constexpr Word most_degree = (Word{1} << degree_bits) - 1;
    static constexpr uint64_t most_keys = uint64_t{1} << (8 * sizeof(Word) - degree_bits);

    static Word of(uint64_t key) { return static_cast<Word>(key << degree_bits | 1); }
    static Word degree(Word sum) { return sum & most_degree; }
    static uint64_t key(Word sum) { return sum >> degree_bits; }
};

// Keys leave in rounds. Within a round they are independent: none contains the slot by which another leaves. So rounds
// can be undone in parallel, and nothing but the order within a round depends on the number of threads.
//
// Slots are updated in bins, which are runs of a segment: threads first sort some updates by bin, and then each takes
// whole bins. So no two threads write the same slot, and none needs locked instructions.
template <typename Word>
class Peeling {
   public:
    // A key that left, and the segment of the slot by which it left.
    struct Left {
        static Word of(uint64_t key, size_t segment) { return static_cast<Word>(key * most_slots + segment); }
        static uint64_t key(Word left) { return left / most_slots; }
        static size_t segment(Word left) { return left % most_slots; }
    };

    // At most SlotSum<Word>::most_keys ids, which must stay where they are.
    Peeling(const SlotHash& hash, Span<const uint64_t> ids)
        : hash_(hash),
          ids_(ids),
          shift_(shift_for(hash.segment)),
          bins_each_(((hash.segment - 1) >> shift_) + 1),
          order_(ids.size),
          gone_((ids.size + 63) / 64) {
        const size_t slots = hash.slots * size_t{hash.segment};
        sums_ = uninitialised<Word>(slots);
        parallel_for(slots, piece, [&](size_t begin, size_t end) { std::fill(&sums_[begin], sums_.get() + end, 0); });
        alone_.resize(bins());
        sorted_.resize(pieces * bins());
        enter();
        if (!crowded_) do {
                rounds_.push_back(order_.size());
                claim();
                leave();
            } while (order_.size() > rounds_.back());
        alone_ = {};
        sorted_ = {};
        sums_.reset();
    }

    // Whether a slot has more keys than a word can count. Then nothing else is known.
    bool crowded() const { return crowded_; }

    // Rounds are numbered from 0, and the last one is empty.
    size_t rounds() const { return rounds_.size() - 1; }
    Span<const Word> round(size_t number) const {
        return {order_.data() + rounds_[number], rounds_[number + 1] - rounds_[number]};
    }

    // The keys that never were alone, ascending.
    std::vector<size_t> core() const {
        std::vector<size_t> keys;
        for (size_t word = 0; word < gone_.size(); ++word)
            for (uint64_t there = ~gone_[word]; there != 0; there &= there - 1) {
                const size_t key = 64 * word + static_cast<size_t>(__builtin_ctzll(there));
                if (key < ids_.size) keys.push_back(key);
            }
        return keys;
    }

    const SlotHash& hash() const { return hash_; }
    Span<const uint64_t> ids() const { return ids_; }

   private:
    using Sum = SlotSum<Word>;
    static constexpr unsigned least_shift = 12;
    static constexpr size_t most_bins = 16;           // of a segment
    static constexpr size_t piece = size_t{1} << 13;  // keys whose updates one thread sorts
    static constexpr size_t pieces = 16;              // of which so many are sorted before bins are updated
    static constexpr size_t few = size_t{1} << 12;    // keys that are not worth several threads
    static constexpr size_t ahead = 24;               // how many slots ahead are fetched
    static constexpr size_t batch = 32;               // keys that are hashed together

    struct Update {
        uint32_t offset;  // of the slot in its bin
        Word sum;
    };

    static unsigned shift_for(uint64_t segment) {
        unsigned shift = least_shift;
        while ((segment - 1) >> shift >= most_bins) ++shift;
        return shift;
    }

    size_t bins() const { return hash_.slots * bins_each_; }
    size_t start_of(size_t bin) const { return bin / bins_each_ * hash_.segment + (bin % bins_each_ << shift_); }

    // Adds key_at(0..count) to their slots, or subtracts them, and calls visit(bin, offset, sum before) for each slot.
    template <typename KeyAt, typename Visit>
    void update(size_t count, bool subtract, KeyAt key_at, Visit visit) {
        for (size_t start = 0; start < count; start += pieces * piece) {
            const size_t here = std::min(pieces * piece, count - start), used = (here - 1) / piece + 1;
            parallel_for(used, 1, [&](size_t first, size_t last) {
                for (size_t p = first; p < last; ++p)
                    sort_updates(start + p * piece, start + std::min((p + 1) * piece, here), subtract, key_at,
                                 &sorted_[p * bins()]);
            });
            parallel_for(bins(), here < few ? bins() : 1, [&](size_t first, size_t last) {
                for (size_t bin = first; bin < last; ++bin)
                    for (size_t p = 0; p < used; ++p) apply(bin, sorted_[p * bins() + bin], visit);
            });
        }
    }

    template <typename Visit>
    void apply(size_t bin, const std::vector<Update>& updates, Visit visit) {
        Word* sums = &sums_[start_of(bin)];
        for (size_t i = 0; i < updates.size(); ++i) {
            if (i + ahead < updates.size()) __builtin_prefetch(&sums[updates[i + ahead].offset], 1);
            Word& sum = sums[updates[i].offset];
            visit(bin, updates[i].offset, std::exchange(sum, static_cast<Word>(sum + updates[i].sum)));
        }
    }

    template <typename KeyAt>
    void sort_updates(size_t begin, size_t end, bool subtract, KeyAt key_at, std::vector<Update>* sorted) const {
        for (size_t bin = 0; bin < bins(); ++bin) sorted[bin].clear();
        uint64_t ids[batch], at[most_slots][batch];
        for (size_t start = begin; start < end; start += batch) {
            const size_t n = std::min(batch, end - start);
            for (size_t i = start + batch; i < std::min(start + 2 * batch, end); ++i)
                __builtin_prefetch(&ids_[key_at(i)]);
            for (size_t i = 0; i < n; ++i) ids[i] = ids_[key_at(start + i)];
            hash_.of_many(ids, n, at);
            for (size_t i = 0; i < n; ++i) {
                const Word sum = Sum::of(key_at(start + i)), change = subtract ? static_cast<Word>(-sum) : sum;
                for (size_t s = 0; s < hash_.slots; ++s) {
                    const uint64_t offset = at[s][i] - s * hash_.segment;
                    const auto within = static_cast<uint32_t>(offset & ((uint64_t{1} << shift_) - 1));
                    sorted[s * bins_each_ + (offset >> shift_)].push_back({within, change});
                }
            }
        }
    }

    void enter() {
        update(
            ids_.size, false, [](size_t i) { return i; },
            [&](size_t, uint32_t, Word before) {
                if (Sum::degree(before) == Sum::most_degree) crowded_ = true;
            });
        parallel_for(bins(), ids_.size < few ? bins() : 1, [&](size_t first, size_t last) {
            for (size_t bin = first; bin < last; ++bin) {
                const size_t length = std::min(size_t{1} << shift_, hash_.segment - (bin % bins_each_ << shift_));
                const Word* sums = &sums_[start_of(bin)];
                const auto is_alone = [](Word sum) { return Sum::degree(sum) == 1; };
                alone_[bin].reserve(static_cast<size_t>(std::count_if(sums, sums + length, is_alone)));
                for (size_t at = 0; at < length; ++at)
                    if (is_alone(sums[at])) alone_[bin].push_back(static_cast<uint32_t>(at));
            }
        });
    }

    // Every key that is alone in a slot leaves, by the first such segment. A key has one slot in a segment, so no two
    // threads want it for the same one.
    void claim() {
        for (size_t s = 0; s < hash_.slots; ++s) {
            size_t candidates = 0;
            for (size_t bin = s * bins_each_; bin < (s + 1) * bins_each_; ++bin) candidates += alone_[bin].size();
            parallel_for(bins_each_, candidates < few ? bins_each_ : 1, [&](size_t first, size_t last) {
                Appending<Word> left(order_);
                for (size_t bin = s * bins_each_ + first; bin < s * bins_each_ + last; ++bin) {
                    const std::vector<uint32_t>& found = alone_[bin];
                    const Word* sums = &sums_[start_of(bin)];
                    for (size_t i = 0; i < found.size(); ++i) {
                        if (i + ahead < found.size()) __builtin_prefetch(&sums[found[i + ahead]]);
                        const Word sum = sums[found[i]];
                        if (Sum::degree(sum) != 1) continue;
                        const uint64_t key = Sum::key(sum), bit = uint64_t{1} << (key % 64);
                        const uint64_t before = __atomic_fetch_or(&gone_[key / 64], bit, __ATOMIC_RELAXED);
                        if (!(before & bit)) left.add(Left::of(key, s));
                    }
                    alone_[bin].clear();
                }
            });
        }
    }

    // Removes the keys of the last round from their slots, and records the slots where only one is left.
    void leave() {
        const Word* keys = order_.data() + rounds_.back();
        update(
            order_.size() - rounds_.back(), true, [&](size_t i) { return Left::key(keys[i]); },
            [&](size_t bin, uint32_t offset, Word before) {
                if (Sum::degree(before) == 2) alone_[bin].push_back(offset);
            });
    }

    SlotHash hash_;
    Span<const uint64_t> ids_;
    unsigned shift_;              // a bin has 2^shift slots
    size_t bins_each_;            // bins of a segment
    List<Word> order_;            // the keys that left
    std::vector<size_t> rounds_;  // where each round begins in `order_`
    std::vector<uint64_t> gone_;  // one bit for each key
    std::unique_ptr<Word[]> sums_;
    std::vector<std::vector<uint32_t>> alone_;  // for each bin the slots that may have only one key
    std::vector<std::vector<Update>> sorted_;   // for each piece and bin
    std::atomic<bool> crowded_{false};
};

}  // namespace sparsedp
