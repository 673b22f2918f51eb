// A target of columns that come by Arrow's C interfaces.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "arrow_column.hpp"
#include "checking.hpp"
#include "key_targets.hpp"

namespace sparsedp::fuzz {

// A stream of some equal arrays, which counts what has not been released.
struct PlainStream {
    const char* format;
    ArrowArray array;
    size_t arrays, alive = 0;

    static int get_schema(ArrowStream* stream, ArrowSchema* out) {
        auto* own = static_cast<PlainStream*>(stream->owner);
        *out = {own->format, "", nullptr, 0, 0, nullptr, nullptr, release<ArrowSchema>, own};
        ++own->alive;
        return 0;
    }

    static int get_next(ArrowStream* stream, ArrowArray* out) {
        auto* own = static_cast<PlainStream*>(stream->owner);
        if (own->arrays == 0) return out->release = nullptr, 0;
        --own->arrays;
        *out = own->array;
        out->release = release<ArrowArray>;
        out->owner = own;
        ++own->alive;
        return 0;
    }

    template <typename Struct>
    static void release(Struct* given) {
        --static_cast<PlainStream*>(given->owner)->alive;
        given->release = nullptr;
    }
};

// Strings that end where they should, and wide integers, in one array or in several, with or without nulls.
inline void try_arrow(SipKey key, uint64_t choice, std::vector<int32_t> offsets, const Bytes& data,
                      std::vector<uint64_t> words) {
    const auto most = static_cast<int32_t>(data.size() + 1);
    for (int32_t& offset : offsets) offset = (offset % most + most) % most;
    std::sort(offsets.begin(), offsets.end());
    if (!offsets.empty()) offsets.back() = static_cast<int32_t>(data.size());
    const bool wide = choice & 1, nulls = choice & 2, other = choice & 4;
    const size_t arrays = choice >> 3 & 3, all = wide ? words.size() / 2 : offsets.size() - !offsets.empty();
    const size_t begin = std::min<size_t>(choice >> 5 & 7, all), count = all - begin;
    words.resize(words.size() / 2 * 2);
    if (choice & 0x100)
        for (size_t i = 1; i < words.size(); i += 2)
            words[i] = words[i] & 1 ? words[i - 1] >> 63 ? ~uint64_t{0} : 0 : 0;
    const uint8_t no_null = 0xff;
    const void* buffers[] = {nulls ? &no_null : nullptr, wide ? static_cast<const void*>(words.data()) : offsets.data(),
                             data.data()};
    PlainStream plain{wide ? "d:38,0" : other ? "U" : "u", {}, arrays};
    plain.array = {static_cast<int64_t>(count),
                   nulls ? -1 : 0,
                   static_cast<int64_t>(begin),
                   wide ? 2 : 3,
                   0,
                   buffers,
                   nullptr,
                   nullptr,
                   nullptr,
                   nullptr};
    ArrowStream stream{PlainStream::get_schema, PlainStream::get_next, nullptr, nullptr, &plain};
    {
        const StreamKeys given(key, wide ? integer_tag : text_tag, &stream);
        const WideColumn integers(key, {words.data() + 2 * begin * wide, 2 * count * wide});
        const bool usual = count > 0 && arrays == 1 && !nulls && (wide || !other);
        const bool keys = !wide || integers.first_outside() == count;
        check((given.keys() != nullptr) == (usual && keys), "a column was taken, or should have been");
        if (given.keys() == nullptr) {
            check(plain.alive <= 1, "an array that nobody reads was kept");
        } else if (wide) {
            check(ids_of(*given.keys()) == ids_of(integers), "wide integers of a stream have other ids");
        } else {
            const OffsetColumn<int32_t> strings(key, {offsets.data() + begin, count + 1}, span(data), text_tag);
            check(ids_of(*given.keys()) == ids_of(strings), "strings of a stream have other ids");
        }
    }
    check(plain.alive == 0, "something of a stream was not released");
}

// A table of numbers: all of it is freed once, whether the column is taken out of it or not.
inline void try_exported(const std::vector<uint64_t>& words, bool column_alone) {
    auto numbers = std::make_unique<double[]>(words.size());
    std::transform(words.begin(), words.end(), numbers.get(), [](uint64_t word) { return static_cast<double>(word); });
    ArrowArray table;
    ExportedTable::fill(std::move(numbers), words.size(), &table);
    ArrowArray column = *table.children[0];
    if (column_alone) {
        table.children[0]->release = nullptr;  // moved
        table.release(&table);
    }
    check(static_cast<size_t>(column.length) == words.size(), "a column has another number of rows");
    for (size_t i = 0; i < words.size(); ++i)
        check(static_cast<const double*>(column.buffers[1])[i] == static_cast<double>(words[i]), "a wrong number");
    column_alone ? column.release(&column) : table.release(&table);
}

}  // namespace sparsedp::fuzz
