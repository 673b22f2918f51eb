// For bindings: keys that are Python objects. What depends on their type is here; what depends on their bytes is in
// keys.hpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bindings.hpp"
#include "keys.hpp"

namespace sparsedp::bindings {

// The three kinds of Python keys; bool and everything else is not a key.
enum KeyKind : uint8_t { no_key = 0, text_key, bytes_key, integer_key };

// The kind that Python calls so; any other name, such as "any", stands for every kind, as `no_key` does in `hash_one`.
inline KeyKind kind_named(const char* name) {
    if (std::strcmp(name, "integer") == 0) return integer_key;
    return std::strcmp(name, "text") == 0 ? text_key : std::strcmp(name, "bytes") == 0 ? bytes_key : no_key;
}

// numpy.bool (numpy.bool_ before NumPy 2) is not an integer, though it has an index in older versions. Set once by the
// module, and final in NumPy, so comparing types is enough.
inline PyObject* numpy_bool = nullptr;

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

// What is wrong with a key is explained by the caller. Errors that are not about the key stay errors.
inline void forget_error_of_key() {
    if (!PyErr_Occurred()) return;
    const bool about_key = PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError);
    if (!about_key) throw nb::python_error();
    PyErr_Clear();
}

// The hash of one key of the given kind, or of any if that is `no_key`. False, without a Python error, if it is none.
inline bool hash_one(SipKey key, PyObject* object, KeyKind wanted, uint64_t* out) {
    const KeyKind kind = kind_of(object);
    if (kind != no_key && (wanted == no_key || kind == wanted) && hash_object(key, object, kind, out)) return true;
    forget_error_of_key();
    return false;
}

}  // namespace sparsedp::bindings
