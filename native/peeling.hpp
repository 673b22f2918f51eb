// The order in which a sparse system is solved: repeatedly, all keys that are alone in one of their slots leave.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory.hpp"
#include "parallel.hpp"
#include "retrieval.hpp"

namespace sparsedp {

// Keys leave in rounds. Within a round they are independent: none contains the slot by which another leaves. So rounds
// can be undone in parallel, and nothing depends on the number of threads: one thread updates a segment of slots, in
// the order of the keys. Index numbers the keys; 32 bits are enough for fewer than 2^32 - 1.
template <typename Index>
class Peeling {
   public:
    static constexpr uint8_t still_there = UINT8_MAX;

    Peeling(const SlotHash& hash, const uint64_t* ids, size_t keys)
        : own(keys, still_there),
          hash_(hash),
          ids_(ids),
          slots_(uninitialised<Slot>(hash.slots * size_t{hash.segment})) {
        order.reserve(keys);
        std::vector<std::vector<uint64_t>> alone(hash.slots);
        enter(alone);
        do {
            rounds.push_back(order.size());
            claim(alone);
            leave(alone);
        } while (order.size() > rounds.back());
        slots_.reset();
    }

    std::vector<Index> order;    // the keys that left
    std::vector<size_t> rounds;  // where each round begins in `order`; the last one is empty
    std::vector<uint8_t> own;    // the segment of the slot by which a key left

   private:
    static constexpr size_t ahead = 32;  // how many keys ahead are prefetched
    static constexpr Index none = static_cast<Index>(-1);

    struct Slot {
        Index mixed, degree;  // the XOR of its keys, which is the key itself if it is alone, and their number
    };

    // Calls visit(slot, key number, segment) for the slots of `count` keys, given by id, in segments j and j + 1.
    template <typename Visit>
    void for_each_slot(size_t j, const uint64_t* ids, size_t count, Visit visit) {
        const size_t both = std::min<size_t>(2, hash_.slots - j);
        uint64_t at[ahead][2];
        for (size_t start = 0; start < count; start += ahead) {
            const size_t n = std::min(ahead, count - start);
            for (size_t i = 0; i < n; ++i) {
                hash_.pair(ids[start + i], j, at[i]);
                for (size_t s = 0; s < both; ++s) __builtin_prefetch(&slots_[at[i][s]], 1);
            }
            for (size_t i = 0; i < n; ++i)
                for (size_t s = 0; s < both; ++s) visit(at[i][s], start + i, j + s);
        }
    }

    template <typename Visit>
    void in_pairs_of_segments(size_t work, Visit visit) {
        const size_t pairs = (hash_.slots + 1) / 2;
        parallel_for(pairs, work < 1 << 12 ? pairs : 1, [&](size_t first, size_t last) {
            for (size_t pair = first; pair < last; ++pair) visit(2 * pair);
        });
    }

    void enter(std::vector<std::vector<uint64_t>>& alone) {
        in_pairs_of_segments(own.size(), [&](size_t j) {
            const size_t end = std::min(j + 2, hash_.slots);
            std::fill(&slots_[j * hash_.segment], slots_.get() + end * hash_.segment, Slot{0, 0});
            for_each_slot(j, ids_, own.size(), [&](uint64_t at, size_t key, size_t) {
                slots_[at].mixed ^= static_cast<Index>(key);
                ++slots_[at].degree;
            });
            for (size_t s = j; s < end; ++s)
                for (uint64_t at = s * hash_.segment; at < (s + 1) * hash_.segment; ++at)
                    if (slots_[at].degree == 1) alone[s].push_back(at);
        });
    }

    // Every key that is alone in a slot leaves, by the first such segment.
    void claim(std::vector<std::vector<uint64_t>>& alone) {
        for (size_t s = 0; s < hash_.slots; ++s) {
            std::vector<uint64_t>& found = alone[s];
            parallel_for(found.size(), size_t{1} << 14, [&](size_t begin, size_t end) {
                for (size_t i = begin; i < end; ++i) {
                    if (i + ahead < end) __builtin_prefetch(&slots_[found[i + ahead]]);
                    const Slot& slot = slots_[found[i]];
                    found[i] = slot.degree == 1 ? slot.mixed : none;
                }
            });
            for (size_t i = 0; i < found.size(); ++i) {
                if (i + ahead < found.size() && found[i + ahead] != none) __builtin_prefetch(&own[found[i + ahead]], 1);
                if (found[i] == none || own[found[i]] != still_there) continue;
                own[found[i]] = static_cast<uint8_t>(s);
                order.push_back(static_cast<Index>(found[i]));
            }
            found.clear();
        }
    }

    // Removes the keys of the last round from their slots, and records the slots where only one is left.
    void leave(std::vector<std::vector<uint64_t>>& alone) {
        const Index* keys = order.data() + rounds.back();
        const size_t count = order.size() - rounds.back();
        std::vector<uint64_t> ids(count);
        parallel_for(count, size_t{1} << 14, [&](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) {
                if (i + ahead < end) __builtin_prefetch(&ids_[keys[i + ahead]]);
                ids[i] = ids_[keys[i]];
            }
        });
        in_pairs_of_segments(count, [&](size_t j) {
            for_each_slot(j, ids.data(), count, [&](uint64_t at, size_t i, size_t segment) {
                slots_[at].mixed ^= keys[i];
                if (--slots_[at].degree == 1) alone[segment].push_back(at);
            });
        });
    }

    SlotHash hash_;
    const uint64_t* ids_;
    std::unique_ptr<Slot[]> slots_;
};

}  // namespace sparsedp
