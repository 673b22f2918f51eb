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
// for one key of it fetch(Places&, i), which prefetches, and size_t read(Places, i), which is below answers().
//
// A key may have several answers at once, such as an estimate and the ends of its interval. `values` has those of what
// a source reads next to each other, and `stored_as` says what a stored value becomes for each of them.
constexpr size_t most_answers = 3;

template <typename Source>
class Reader {
   public:
    Reader(Source source, std::vector<const TableIndex*> tables, Span<const double> values,
           std::vector<StoredAs> stored_as)
        : source_(std::move(source)),
          tables_(std::move(tables)),
          values_(values.data),
          stored_as_(std::move(stored_as)) {
        require(tables_.size() == source_.parts(), "one table for each part");
        require(!stored_as_.empty() && stored_as_.size() <= most_answers, "a key has one to three answers");
        require(values.size == source_.answers() * stored_as_.size(), Source::one_value_for_each);
    }

    // How many answers a key has.
    size_t answers() const { return stored_as_.size(); }

    // The first answer of a key.
    double read_one(uint64_t id) const {
        typename Source::Places place;
        source_.locate(&id, 1, place);
        source_.fetch(place, 0);
        const TableIndex& table = *tables_[part(id)];
        const int64_t at = table.find(id);
        return at >= 0 ? stored_as_[0](table.value(at)) : values_[source_.read(place, 0) * answers()];
    }

    // All answers, each to its own array.
    void read(const KeyBatch& keys, double* const* outs) const {
        switch (answers()) {
            case 1: return read_all<1>(keys, outs);
            case 2: return read_all<2>(keys, outs);
            default: return read_all<most_answers>(keys, outs);
        }
    }

   private:
    template <size_t Answers>
    struct Outs {
        double* data[Answers];
    };

    template <size_t Answers>
    void read_all(const KeyBatch& keys, double* const* outs) const {
        parallel_for(keys.size(), grain, [&](size_t begin, size_t end) {
            for (size_t at = begin; at < end; at += stretch) {
                Outs<Answers> own;
                for (size_t k = 0; k < Answers; ++k) own.data[k] = outs[k] + at;
                read_stretch(keys, at, std::min(stretch, end - at), own);
            }
        });
    }

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

    template <size_t Answers>
    void read_stretch(const KeyBatch& keys, size_t begin, size_t count, const Outs<Answers> outs) const {
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
                if (i < older.count) answer(source, only, older, i, outs, hits);
            }
            if (hits.count >= most_hits) answer_stored(hits, outs);
        }
        answer_stored(hits, outs);
    }

    void fetch(const Source& source, const TableIndex* only, Group& group, size_t i) const {
        source.fetch(group.places, i);
        const TableIndex& table = only ? *only : *tables_[part(group.ids[i])];
        group.buckets[i] = static_cast<uint32_t>(table.bucket_of(group.ids[i]));
        table.fetch_bucket(group.buckets[i]);
    }

    template <size_t Answers>
    void answer(const Source& source, const TableIndex* only, const Group& group, size_t i, const Outs<Answers>& outs,
                Hits& hits) const {
        const double* values = values_ + source.read(group.places, i) * Answers;
        for (size_t k = 0; k < Answers; ++k) outs.data[k][group.start + i] = values[k];
        hits.hits[hits.count] = {group.ids[i], static_cast<uint32_t>(group.start + i), group.buckets[i]};
        hits.count += (only ? only : tables_[part(group.ids[i])])->may_have(group.buckets[i], group.ids[i]);
    }

    template <size_t Answers>
    void answer_stored(Hits& hits, const Outs<Answers>& outs) const {
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
        for (size_t n = 0; n < count; ++n) {
            const int64_t value = found[n].table->value(found[n].place);
            for (size_t k = 0; k < Answers; ++k) outs.data[k][found[n].at] = stored_as_[k](value);
        }
        hits.count = 0;
    }

    Source source_;
    std::vector<const TableIndex*> tables_;
    const double* values_;
    std::vector<StoredAs> stored_as_;
};

}  // namespace sparsedp
