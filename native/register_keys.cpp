// Bindings of keys that are Python objects.
#include "bindings.hpp"
#include "key_objects.hpp"
#include "keys.hpp"

namespace sparsedp::bindings {
namespace {

// The hash of one key, or None if it is not a key: the caller explains.
nb::object hash_key(uint64_t k0, uint64_t k1, nb::handle key) {
    uint64_t out;
    if (!hash_one({k0, k1}, key.ptr(), no_key, &out)) return nb::none();
    return nb::int_(out);
}

// Applies convert(object, kind, out) to every key of a list or tuple, all of the kind of the first. Returns the array,
// or the position of the first key that has another kind, no kind, or cannot be converted: the caller explains.
template <typename Convert>
nb::object convert_keys(nb::object sequence, Convert convert) {
    nb::object fast = nb::steal(PySequence_Fast(sequence.ptr(), "keys must be a sequence"));
    if (!fast.is_valid()) throw nb::python_error();
    // Functions of the stable interface, not macros. They also check bounds: an __index__ may shorten the list.
    const auto item = PyList_Check(fast.ptr()) ? PyList_GetItem : PyTuple_GetItem;
    const size_t length = nb::len(fast);
    auto out = uninitialised<uint64_t>(length);
    KeyKind kind = no_key;
    for (size_t i = 0; i < length; ++i) {
        PyObject* object = item(fast.ptr(), static_cast<Py_ssize_t>(i));
        if (object == nullptr) throw nb::python_error();
        if (i == 0) kind = kind_of(object);
        if (kind == no_key || kind_of(object) != kind || !convert(object, kind, &out[i])) {
            forget_error_of_key();
            return nb::int_(i);
        }
    }
    return nb::cast(own(std::move(out), length));
}

nb::object hash_objects(uint64_t k0, uint64_t k1, nb::object keys) {
    return convert_keys(
        keys, [=](PyObject* object, KeyKind kind, uint64_t* out) { return hash_object({k0, k1}, object, kind, out); });
}

// Integer keys unchanged, each at most `largest`.
nb::object integer_objects(nb::object keys, uint64_t largest) {
    return convert_keys(keys, [=](PyObject* object, KeyKind kind, uint64_t* out) {
        bool negative;
        return kind == integer_key && integer_bits(object, out, &negative) && !negative && *out <= largest;
    });
}

uint64_t siphash24(nb::bytes key, nb::bytes message) {
    const SipKey words = sip_key({static_cast<const uint8_t*>(key.data()), key.size()});
    return siphash(words, static_cast<const uint8_t*>(message.data()), message.size(), no_tag);
}

}  // namespace

void register_keys(nb::module_& m) {
    numpy_bool = nb::object(nb::module_::import_("numpy").attr("bool_")).release().ptr();
    m.def("hash_key", &hash_key, nb::arg("k0"), nb::arg("k1"), nb::arg("key").none());
    m.def("hash_objects", &hash_objects, nb::arg("k0"), nb::arg("k1"), nb::arg("keys"));
    m.def("integer_objects", &integer_objects, nb::arg("keys"), nb::arg("largest"));
    m.def("siphash24", &siphash24, nb::arg("key"), nb::arg("message"));
}

}  // namespace sparsedp::bindings
