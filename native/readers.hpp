// Lookups: immutable views of published arrays that answer many ids, prefetching their memory.
//
// A release has one or more parts; part p holds the keys whose placement has p as the high word of placement x parts.
// A key is answered by its value in the table of its part, or else by a function of what is at its place in the part.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "parallel.hpp"
#include "table.hpp"

namespace sparsedp {

// What a stored value v becomes: factor x v + offset. (1, 0) is the value itself, (1, -e) a lower bound, (0, c) a
// constant.
struct StoredAs {
    double factor, offset;

    double operator()(int64_t value) const { return factor * static_cast<double>(value) + offset; }
};

// Answers ids in groups: the memory for each group's next step is fetched while the others do theirs.
// Source (sources.hpp) has Place locate(id) (which prefetches), size_t part(Place) and double read(Place); each of its
// parts() has a table.
template <typename Source>
class Reader {
   public:
    Reader(Source source, std::vector<const TableIndex*> tables, StoredAs stored_as)
        : source_(std::move(source)), tables_(std::move(tables)), stored_as_(stored_as) {
        require(tables_.size() == source_.parts(), "one table for each part");
    }

    double read_one(uint64_t id) const {
        const auto place = source_.locate(id);
        const TableIndex& table = *tables_[source_.part(place)];
        const int64_t at = table.find(id);
        return at >= 0 ? stored_as_(table.value(at)) : source_.read(place);
    }

    void read(Span<const uint64_t> ids, double* out) const {
        parallel_for(ids.size, grain,
                     [=](size_t begin, size_t end) { read_range(ids.data + begin, end - begin, out + begin); });
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

}  // namespace sparsedp
