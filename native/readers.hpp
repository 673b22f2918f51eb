// Lookups: immutable views of published arrays that answer many keys, prefetching their memory.
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
#include "key_batch.hpp"
#include "parallel.hpp"
#include "sources.hpp"
#include "table.hpp"

namespace sparsedp {

// What a stored value v becomes: factor x v + offset, cut to [low, high], x step. A factor of 1 and an offset of 0 give
// the value itself, (1, -e) a lower bound, (0, c) a constant.
struct StoredAs {
    double factor, offset, low, high, step;

    double operator()(int64_t value) const {
        return std::min(std::max(factor * static_cast<double>(value) + offset, low), high) * step;
    }
};

// Answers keys in groups. Fetching the memory of a key alternates with computing the answer of one of the group before:
// a processor fetches only so many cache lines at once, and would wait instead of computing if it were asked for more.
// Keys that the table may have are collected and looked for together, so that few branches are hard to predict.
//
// Source (sources.hpp) has parts() with a table each, size_t part(id), locate(ids, count, Places&) for a group, and
// for one key of it fetch(Places&, i), which prefetches, and double read(Places, i).
template <typename Source>
class Reader {
   public:
    Reader(Source source, std::vector<const TableIndex*> tables, StoredAs stored_as)
        : source_(std::move(source)), tables_(std::move(tables)), stored_as_(stored_as) {
        require(tables_.size() == source_.parts(), "one table for each part");
    }

    double read_one(uint64_t id) const {
        typename Source::Places place;
        source_.locate(&id, 1, place);
        source_.fetch(place, 0);
        const TableIndex& table = *tables_[part(id)];
        const int64_t at = table.find(id);
        return at >= 0 ? stored_as_(table.value(at)) : source_.read(place, 0);
    }

    void read(const KeyBatch& keys, double* out) const {
        parallel_for(keys.size(), grain, [&](size_t begin, size_t end) {
            for (size_t at = begin; at < end; at += stretch)
                read_stretch(keys, at, std::min(stretch, end - at), out + at);
        });
    }

   private:
    static constexpr size_t grain = size_t{1} << 15, stretch = size_t{1} << 16, most_hits = 256;

    struct Group {
        size_t start = 0, count = 0;
        uint64_t ids[most_of_group];
        uint32_t buckets[most_of_group];
        typename Source::Places places;
    };

    // A key that may be stored, by its position among the keys of a stretch.
    struct Hit {
        uint64_t id;
        uint32_t at, bucket;
    };

    // A key that is stored.
    struct Found {
        const TableIndex* table;
        int64_t place;
        uint32_t at;
    };

    // Collects keys that may be stored. There is room for a whole group, and for the key that is written and not kept.
    struct Hits {
        size_t count = 0;
        Hit hits[most_hits + most_of_group + 1];
    };

    size_t part(uint64_t id) const { return tables_.size() == 1 ? 0 : source_.part(id); }

    void read_stretch(const KeyBatch& keys, size_t begin, size_t count, double* out) const {
        const Source source = source_;  // a copy that nothing written here can change, so that it is read once
        const TableIndex* const only = tables_.size() == 1 ? tables_[0] : nullptr;
        Group groups[2];
        Hits hits;
        for (size_t start = 0, turn = 0; start < count + most_of_group; start += most_of_group, ++turn) {
            Group &newer = groups[turn % 2], &older = groups[(turn + 1) % 2];
            newer.count = start < count ? std::min(most_of_group, count - start) : 0;
            newer.start = start;
            keys.ids(begin + start, newer.count, newer.ids);
            source.locate(newer.ids, newer.count, newer.places);
            for (size_t i = 0; i < most_of_group; ++i) {
                if (i < newer.count) fetch(source, only, newer, i);
                if (i < older.count) answer(source, only, older, i, out, hits);
            }
            if (hits.count >= most_hits) answer_stored(hits, out);
        }
        answer_stored(hits, out);
    }

    void fetch(const Source& source, const TableIndex* only, Group& group, size_t i) const {
        source.fetch(group.places, i);
        const TableIndex& table = only ? *only : *tables_[part(group.ids[i])];
        group.buckets[i] = static_cast<uint32_t>(table.bucket_of(group.ids[i]));
        table.fetch_bucket(group.buckets[i]);
    }

    void answer(const Source& source, const TableIndex* only, const Group& group, size_t i, double* out,
                Hits& hits) const {
        out[group.start + i] = source.read(group.places, i);
        hits.hits[hits.count] = {group.ids[i], static_cast<uint32_t>(group.start + i), group.buckets[i]};
        hits.count += (only ? only : tables_[part(group.ids[i])])->may_have(group.buckets[i], group.ids[i]);
    }

    void answer_stored(Hits& hits, double* out) const {
        Found found[most_hits + most_of_group + 1];
        size_t count = 0;
        for (size_t n = 0; n < hits.count; ++n)
            tables_[part(hits.hits[n].id)]->fetch_guess(hits.hits[n].bucket, hits.hits[n].id);
        for (size_t n = 0; n < hits.count; ++n) {
            const Hit& hit = hits.hits[n];
            const TableIndex* table = tables_[part(hit.id)];
            found[count] = {table, table->find(hit.bucket, hit.id), hit.at};
            count += found[count].place >= 0;
        }
        for (size_t n = 0; n < count; ++n) found[n].table->fetch_value(found[n].place);
        for (size_t n = 0; n < count; ++n) out[found[n].at] = stored_as_(found[n].table->value(found[n].place));
        hits.count = 0;
    }

    Source source_;
    std::vector<const TableIndex*> tables_;
    StoredAs stored_as_;
};

}  // namespace sparsedp
