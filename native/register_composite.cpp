// Bindings of keys of several columns.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings.hpp"
#include "composite.hpp"
#include "key_columns.hpp"

namespace sparsedp::bindings {
namespace {

CompositeKeys composite(nb::bytes tags, const std::vector<size_t>& widths, const std::vector<In<int64_t>>& offsets,
                        const std::vector<In<uint8_t>>& data, size_t rows) {
    std::vector<Component> columns;
    const size_t count = std::min({tags.size(), widths.size(), offsets.size(), data.size()});
    columns.reserve(count);
    for (size_t i = 0; i < count; ++i) {
        const auto tag = static_cast<uint8_t>(static_cast<const char*>(tags.data())[i]);
        columns.push_back({tag, widths[i], span(offsets[i]), span(data[i])});
    }
    return {std::move(columns), rows};
}

Out<uint64_t> hash_composite(uint64_t k0, uint64_t k1, nb::bytes tags, std::vector<size_t> widths,
                             std::vector<In<int64_t>> offsets, std::vector<In<uint8_t>> data, size_t rows) {
    const CompositeKeys keys = composite(tags, widths, offsets, data, rows);
    auto out = uninitialised<uint64_t>(rows);
    {
        Unlocked unlocked;
        keys.hash_all({k0, k1}, out.get());
    }
    return own(std::move(out), rows);
}

// The canonical bytes of all rows, one after the other, and where each begins.
std::pair<Out<int64_t>, Out<uint8_t>> encode_composite(nb::bytes tags, std::vector<size_t> widths,
                                                       std::vector<In<int64_t>> offsets, std::vector<In<uint8_t>> data,
                                                       size_t rows) {
    const CompositeKeys keys = composite(tags, widths, offsets, data, rows);
    auto starts = uninitialised<int64_t>(rows + 1);
    size_t total = 0;
    for (size_t row = 0; row < rows; ++row) {
        starts[row] = static_cast<int64_t>(total);
        total += keys.length(row);
    }
    starts[rows] = static_cast<int64_t>(total);
    auto bytes = uninitialised<uint8_t>(total);
    {
        Unlocked unlocked;
        const int64_t* at = starts.get();
        uint8_t* out = bytes.get();
        parallel_for(rows, map_grain, [&](size_t begin, size_t end) {
            for (size_t row = begin; row < end; ++row) keys.write(row, out + at[row]);
        });
    }
    return {own(std::move(starts), rows + 1), own(std::move(bytes), total)};
}

// The fingerprints of canonical bytes.
Out<uint64_t> hash_encoded(uint64_t k0, uint64_t k1, In<int64_t> offsets, In<uint8_t> data) {
    const OffsetColumn<int64_t> column({k0, k1}, span(offsets), span(data), no_tag);
    auto out = uninitialised<uint64_t>(column.size());
    {
        Unlocked unlocked;
        column.all_ids(out.get());
    }
    return own(std::move(out), column.size());
}

}  // namespace

void register_composite(nb::module_& m) {
    m.def("hash_composite", &hash_composite, nb::arg("k0"), nb::arg("k1"), nb::arg("tags"), nb::arg("widths"),
          nb::arg("offsets"), nb::arg("data"), nb::arg("rows"));
    m.def("hash_encoded", &hash_encoded, nb::arg("k0"), nb::arg("k1"), nb::arg("offsets"), nb::arg("data"));
    m.def("encode_composite", &encode_composite, nb::arg("tags"), nb::arg("widths"), nb::arg("offsets"),
          nb::arg("data"), nb::arg("rows"));
}

}  // namespace sparsedp::bindings
