// Bindings of columns of keys.
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "key_columns.hpp"

namespace sparsedp::bindings {
namespace {

KeyTag tag_of(bool text) { return text ? text_tag : bytes_tag; }

Out<uint64_t> hash_signed(uint64_t k0, uint64_t k1, In<int64_t> values) {
    const int64_t* v = values.data();
    return map<uint64_t>(values.size(), [=](size_t i) { return sparsedp::hash_signed({k0, k1}, v[i]); });
}

Out<uint64_t> hash_unsigned(uint64_t k0, uint64_t k1, In<uint64_t> values) {
    const uint64_t* v = values.data();
    return map<uint64_t>(values.size(), [=](size_t i) { return sparsedp::hash_unsigned({k0, k1}, v[i]); });
}

// Returns the position of the first integer that is no key, if there is one, instead.
nb::object hash_wide(uint64_t k0, uint64_t k1, In<int64_t> words) {
    const WideColumn column({k0, k1}, span(words));
    const size_t outside = column.first_outside();
    return outside != column.size() ? nb::object(nb::int_(outside)) : nb::cast(map<uint64_t>(column));
}

template <typename Offset>
Out<uint64_t> hash_column(uint64_t k0, uint64_t k1, In<Offset> offsets, In<uint8_t> data, bool text) {
    return map<uint64_t>(OffsetColumn<Offset>({k0, k1}, span(offsets), span(data), tag_of(text)));
}

Out<uint64_t> hash_views(uint64_t k0, uint64_t k1, In<uint8_t> views, std::vector<In<uint8_t>> buffers, bool text) {
    return map<uint64_t>(ViewColumn({k0, k1}, span(views), spans(buffers), tag_of(text)));
}

Out<uint64_t> hash_fixed_bytes(uint64_t k0, uint64_t k1, In<uint8_t> data, size_t width) {
    return map<uint64_t>(FixedBytesColumn({k0, k1}, span(data), width));
}

// Returns the position of the first key that is not valid Unicode, if there is one, instead.
nb::object hash_fixed_text(uint64_t k0, uint64_t k1, In<uint32_t> data, size_t width) {
    const FixedTextColumn column({k0, k1}, span(data), width);
    const size_t length = column.size(), invalid = column.first_invalid();
    if (invalid != length) return nb::int_(invalid);
    auto out = uninitialised<uint64_t>(length);
    {
        Unlocked unlocked;
        column.hash_all(out.get());
    }
    return nb::cast(own(std::move(out), length));
}

}  // namespace

void register_key_columns(nb::module_& m) {
    m.def("hash_signed", &hash_signed, nb::arg("k0"), nb::arg("k1"), nb::arg("values"));
    m.def("hash_unsigned", &hash_unsigned, nb::arg("k0"), nb::arg("k1"), nb::arg("values"));
    m.def("hash_wide", &hash_wide, nb::arg("k0"), nb::arg("k1"), nb::arg("words"));
    m.def("hash_column", &hash_column<int32_t>, nb::arg("k0"), nb::arg("k1"), nb::arg("offsets"), nb::arg("data"),
          nb::arg("text"));
    m.def("hash_large_column", &hash_column<int64_t>, nb::arg("k0"), nb::arg("k1"), nb::arg("offsets"), nb::arg("data"),
          nb::arg("text"));
    m.def("hash_views", &hash_views, nb::arg("k0"), nb::arg("k1"), nb::arg("views"), nb::arg("buffers"),
          nb::arg("text"));
    m.def("hash_fixed_bytes", &hash_fixed_bytes, nb::arg("k0"), nb::arg("k1"), nb::arg("data"), nb::arg("width"));
    m.def("hash_fixed_text", &hash_fixed_text, nb::arg("k0"), nb::arg("k1"), nb::arg("data"), nb::arg("width"));
}

}  // namespace sparsedp::bindings
