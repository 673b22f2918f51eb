// From keys to 64-bit fingerprints: canonical bytes are the payload and one type tag (src/sparsedp/keys/hashing.py).
#pragma once
#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "siphash.hpp"

namespace sparsedp {

enum KeyTag : int { text_tag = 's', bytes_tag = 'b', integer_tag = 'i', large_integer_tag = 'u' };

inline uint64_t hash_integer(SipKey key, uint64_t bits, KeyTag tag) {
    // Eight little-endian bytes and the tag, written out: one whole block and one last block.
    SipHash24 state(key);
    state.absorb(bits);
    state.absorb(static_cast<uint64_t>(tag) | uint64_t{9} << 56);
    return state.finish();
}

inline uint64_t hash_signed(SipKey key, int64_t value) {
    return hash_integer(key, static_cast<uint64_t>(value), integer_tag);
}

inline uint64_t hash_unsigned(SipKey key, uint64_t value) {
    return hash_integer(key, value, value >> 63 ? large_integer_tag : integer_tag);
}

// The three kinds of Python keys; bool and everything else is not a key.
enum KeyKind : int { no_key = 0, text_key, bytes_key, integer_key };

// numpy.bool (numpy.bool_ before NumPy 2) is not an integer, though it has an index in older versions. Set once by the
// module, and final in NumPy, so comparing types is enough.
inline PyObject* numpy_bool = nullptr;

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

// Unicode code points as UTF-8, at most four bytes for each; returns the number of bytes.
inline size_t encode_utf8(const uint32_t* letters, size_t count, uint8_t* out) {
    uint8_t* at = out;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t c = letters[i];
        if (c < 0x80) {
            *at++ = static_cast<uint8_t>(c);
            continue;
        }
        const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static constexpr uint8_t lead[4] = {0, 0xc0, 0xe0, 0xf0};
        *at++ = static_cast<uint8_t>(lead[more] | c >> (6 * more));
        for (int j = more - 1; j >= 0; --j) *at++ = static_cast<uint8_t>(0x80 | (c >> (6 * j) & 0x3f));
    }
    return static_cast<size_t>(at - out);
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

}  // namespace sparsedp
