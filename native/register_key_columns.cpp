// Bindings of columns of keys.
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "key_columns.hpp"
#include "keys_object.hpp"

namespace sparsedp::bindings {
namespace {

KeyTag tag_of(bool text) { return text ? text_tag : bytes_tag; }

Keys signed_keys(uint64_t k0, uint64_t k1, In<int64_t> values) {
    const Span<const uint64_t> bits{reinterpret_cast<const uint64_t*>(values.data()), values.size()};
    return Keys::of(std::make_unique<IntegerKeys>(SipKey{k0, k1}, bits, true), values);
}

Keys unsigned_keys(uint64_t k0, uint64_t k1, In<uint64_t> values) {
    return Keys::of(std::make_unique<IntegerKeys>(SipKey{k0, k1}, span(values), false), values);
}

template <typename Offset>
Keys offset_keys(uint64_t k0, uint64_t k1, In<Offset> offsets, In<uint8_t> data, bool text) {
    auto column = std::make_unique<OffsetColumn<Offset>>(SipKey{k0, k1}, span(offsets), span(data), tag_of(text));
    return Keys::of(std::move(column), offsets, data);
}

Keys view_keys(uint64_t k0, uint64_t k1, In<uint8_t> views, std::vector<In<uint8_t>> buffers, bool text) {
    auto column = std::make_unique<ViewColumn>(SipKey{k0, k1}, span(views), spans(buffers), tag_of(text));
    return Keys::of(std::move(column), views, std::move(buffers));
}

Keys fixed_bytes_keys(uint64_t k0, uint64_t k1, In<uint8_t> data, size_t width) {
    return Keys::of(std::make_unique<FixedBytesColumn>(SipKey{k0, k1}, span(data), width), data);
}

// Returns the position of the first key that is not valid Unicode, if there is one, instead.
nb::object fixed_text_keys(uint64_t k0, uint64_t k1, In<uint32_t> data, size_t width) {
    auto column = std::make_unique<FixedTextColumn>(SipKey{k0, k1}, span(data), width);
    const size_t invalid = column->first_invalid();
    if (invalid != column->size()) return nb::int_(invalid);
    return nb::cast(Keys::of(std::move(column), data));
}

}  // namespace

void register_key_columns(nb::module_& m) {
    nb::class_<Keys>(m, "Keys").def("__len__", &Keys::size).def("ids", &Keys::ids);
    m.def("signed_keys", &signed_keys, nb::arg("k0"), nb::arg("k1"), nb::arg("values"));
    m.def("unsigned_keys", &unsigned_keys, nb::arg("k0"), nb::arg("k1"), nb::arg("values"));
    m.def("offset_keys", &offset_keys<int32_t>, nb::arg("k0"), nb::arg("k1"), nb::arg("offsets"), nb::arg("data"),
          nb::arg("text"));
    m.def("large_offset_keys", &offset_keys<int64_t>, nb::arg("k0"), nb::arg("k1"), nb::arg("offsets"), nb::arg("data"),
          nb::arg("text"));
    m.def("view_keys", &view_keys, nb::arg("k0"), nb::arg("k1"), nb::arg("views"), nb::arg("buffers"), nb::arg("text"));
    m.def("fixed_bytes_keys", &fixed_bytes_keys, nb::arg("k0"), nb::arg("k1"), nb::arg("data"), nb::arg("width"));
    m.def("fixed_text_keys", &fixed_text_keys, nb::arg("k0"), nb::arg("k1"), nb::arg("data"), nb::arg("width"));
}

}  // namespace sparsedp::bindings
