// Bindings of keys that are Python objects. What depends on their type is here; what depends on their bytes is in
// keys.hpp.
#include "bindings.hpp"
#include "keys.hpp"

namespace sparsedp::bindings {
namespace {

// The three kinds of Python keys; bool and everything else is not a key.
enum KeyKind : uint8_t { no_key = 0, text_key, bytes_key, integer_key };

// numpy.bool (numpy.bool_ before NumPy 2) is not an integer, though it has an index in older versions. Set once by the
// module, and final in NumPy, so comparing types is enough.
PyObject* numpy_bool = nullptr;

// `inline` asks the compiler to put these into the loops over keys, which makes them a fifth faster.
inline bool is_numpy_bool(PyObject* object) { return reinterpret_cast<PyObject*>(Py_TYPE(object)) == numpy_bool; }

inline KeyKind kind_of(PyObject* object) {
    if (PyUnicode_Check(object)) return text_key;
    if (PyBytes_Check(object)) return bytes_key;
    if (PyLong_Check(object)) return PyBool_Check(object) ? no_key : integer_key;
    if (PyFloat_Check(object) || is_numpy_bool(object)) return no_key;
    return PyIndex_Check(object) ? integer_key : no_key;  // NumPy integers have an index
}

// A 64-bit integer from a Python or NumPy integer: `bits` in two's complement, `negative` for its sign.
// False, with a Python error set, if it does not fit.
inline bool integer_bits(PyObject* object, uint64_t* bits, bool* negative) {
    PyObject* number = PyNumber_Index(object);
    if (number == nullptr) return false;
    int overflow;
    const long long small = PyLong_AsLongLongAndOverflow(number, &overflow);
    bool fits = true;
    *negative = overflow < 0 || (overflow == 0 && small < 0);
    if (overflow == 0) {
        *bits = static_cast<uint64_t>(small);
    } else {
        *bits = overflow > 0 ? PyLong_AsUnsignedLongLong(number) : 0;
        fits = overflow > 0 && !PyErr_Occurred();
    }
    Py_DECREF(number);
    return fits;
}

inline bool hash_object(SipKey key, PyObject* object, KeyKind kind, uint64_t* out) {
    if (kind == text_key) {
        Py_ssize_t length;
        const char* text = PyUnicode_AsUTF8AndSize(object, &length);
        if (text == nullptr) return false;
        *out = siphash(key, reinterpret_cast<const uint8_t*>(text), static_cast<size_t>(length), text_tag);
        return true;
    }
    if (kind == bytes_key) {
        char* bytes;
        Py_ssize_t length;
        if (PyBytes_AsStringAndSize(object, &bytes, &length) < 0) return false;
        *out = siphash(key, reinterpret_cast<const uint8_t*>(bytes), static_cast<size_t>(length), bytes_tag);
        return true;
    }
    uint64_t bits;
    bool negative;
    if (!integer_bits(object, &bits, &negative)) return false;
    *out = negative ? hash_signed(key, static_cast<int64_t>(bits)) : hash_unsigned(key, bits);
    return true;
}

// The hash of one key, or None if it is not a key: the caller explains.
nb::object hash_key(uint64_t k0, uint64_t k1, nb::handle key) {
    uint64_t out;
    const KeyKind kind = kind_of(key.ptr());
    if (kind != no_key && hash_object({k0, k1}, key.ptr(), kind, &out)) return nb::int_(out);
    PyErr_Clear();
    return nb::none();
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
            PyErr_Clear();
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
