// Lookups: immutable views of published arrays that answer many ids, prefetching their memory.
//
// A release has one or more parts; part p holds the keys whose placement has p as the high word of placement x parts.
// A key is answered by its value in the table of its part, or else by a function of what is at its place in the part.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "blocks.hpp"
#include "parallel.hpp"
#include "retrieval.hpp"
#include "table.hpp"

namespace sparsedp {

// What a stored value v becomes: factor x v + offset. (1, 0) is the value itself, (1, -e) a lower bound, (0, c) a constant.
struct StoredAs {
    double factor, offset;

    double operator()(int64_t value) const { return factor * static_cast<double>(value) + offset; }
};

// Answers ids in groups: the memory for each group's next step is fetched while the others do theirs.
// Source has Place locate(id) (which fetches), size_t part(Place) and double read(Place).
template <typename Source>
class Reader {
   public:
    Reader(Source source, std::vector<const TableIndex*> tables, StoredAs stored_as)
        : source_(std::move(source)), tables_(std::move(tables)), stored_as_(stored_as) {}

    double read_one(uint64_t id) const {
        const auto place = source_.locate(id);
        const TableIndex& table = *tables_[source_.part(place)];
        const int64_t at = table.find(id);
        return at >= 0 ? stored_as_(table.value(at)) : source_.read(place);
    }

    void read(const uint64_t* ids, size_t count, double* out) const {
        parallel_for(count, grain, [=](size_t begin, size_t end) { read_range(ids + begin, end - begin, out + begin); });
    }

   private:
    static constexpr size_t group = 32, grain = size_t{1} << 15;
    using Place = decltype(std::declval<const Source&>().locate(0));

    // The keys in progress, and which of them may be stored.
    struct Group {
        const uint64_t* ids;
        size_t count = 0, hits = 0;
        Place places[group];
        const TableIndex* tables[group];
        size_t buckets[group];
        uint32_t hit[group];
    };

    // Two groups are in progress: while one waits for its places and buckets, those of the other have arrived.
    void read_range(const uint64_t* ids, size_t count, double* out) const {
        Group groups[2];
        for (size_t start = 0, turn = 0; start < count + 2 * group; start += group, ++turn) {
            Group &older = groups[turn % 2], &newer = groups[(turn + 1) % 2];
            if (start >= 2 * group) finish(older, out + start - 2 * group);
            locate(older, ids + start, start < count ? std::min(group, count - start) : 0);
            filter(newer);
        }
    }

    void locate(Group& keys, const uint64_t* ids, size_t count) const {
        keys.ids = ids;
        keys.count = count;
        for (size_t i = 0; i < count; ++i) {
            keys.places[i] = source_.locate(ids[i]);
            keys.tables[i] = tables_[source_.part(keys.places[i])];
            keys.buckets[i] = keys.tables[i]->bucket_of(ids[i]);
            keys.tables[i]->fetch_bucket(keys.buckets[i]);
        }
    }

    void filter(Group& keys) const {
        keys.hits = 0;
        for (size_t i = 0; i < keys.count; ++i) {
            keys.hit[keys.hits] = static_cast<uint32_t>(i);
            keys.hits += keys.tables[i]->may_have(keys.buckets[i], keys.ids[i]);
        }
        for (size_t n = 0; n < keys.hits; ++n) keys.tables[keys.hit[n]]->fetch_ids(keys.buckets[keys.hit[n]]);
    }

    void finish(const Group& keys, double* out) const {
        for (size_t i = 0; i < keys.count; ++i) out[i] = source_.read(keys.places[i]);
        for (size_t n = 0; n < keys.hits; ++n) {
            const size_t i = keys.hit[n];
            const int64_t at = keys.tables[i]->find(keys.buckets[i], keys.ids[i]);
            if (at >= 0) out[i] = stored_as_(keys.tables[i]->value(at));
        }
    }

    Source source_;
    std::vector<const TableIndex*> tables_;
    StoredAs stored_as_;
};

// Noisy symbols in cache-line blocks; the pattern of a key's symbols has a value in a table of all patterns.
struct BlockSource {
    BlockLayout layout;
    Placement place;
    uint64_t row_seed, parts;
    std::vector<const uint8_t*> bases;  // where block 0 of the release would lie, for each part
    const double* values;

    struct Place {
        uint64_t placement;
        const uint8_t* block;
        size_t part;
    };

    Place locate(uint64_t id) const {
        const uint64_t placement = place(id);
        const size_t part = static_cast<size_t>(static_cast<uint128>(placement) * parts >> 64);
        const uint8_t* block = bases[part] + block_of(placement, layout.blocks) * block_bytes;
        __builtin_prefetch(block);
        return {placement, block, part};
    }
    size_t part(const Place& at) const { return at.part; }
    double read(const Place& at) const {
        return values[read_pattern(layout, at.block, row_bits(at.placement, row_seed))];
    }
};

// Only the table: every key that is not stored has the same answer.
struct NoSource {
    Placement place;
    uint64_t parts;
    double answer;

    struct Place {
        size_t part;
    };

    Place locate(uint64_t id) const {
        return {parts == 1 ? 0 : static_cast<size_t>(static_cast<uint128>(place(id)) * parts >> 64)};
    }
    size_t part(const Place& at) const { return at.part; }
    double read(const Place&) const { return answer; }
};

// A linear system in each part; the XOR of a key's slots falls into a bucket that has a value.
struct SlotSource {
    struct System {
        SlotHash hash;
        const uint8_t* packed;
    };

    Placement place;
    std::vector<System> systems;
    size_t width, slots;
    BucketIndex buckets;
    const double* values;

    struct Place {
        size_t part;
        uint64_t at[most_slots];
    };

    Place locate(uint64_t id) const {
        Place found;
        const uint64_t parts = systems.size();
        found.part = parts == 1 ? 0 : static_cast<size_t>(static_cast<uint128>(place(id)) * parts >> 64);
        const System& system = systems[found.part];
        system.hash(id, found.at);
        for (size_t j = 0; j < slots; ++j) __builtin_prefetch(system.packed + found.at[j] * width);
        return found;
    }
    size_t part(const Place& found) const { return found.part; }
    double read(const Place& found) const {
        const uint8_t* packed = systems[found.part].packed;
        uint64_t sum = 0;
        for (size_t j = 0; j < slots; ++j) {
            uint64_t word;
            std::memcpy(&word, packed + found.at[j] * width, 8);
            sum ^= word;
        }
        return values[buckets(sum)];
    }
};

}  // namespace sparsedp
