// Bindings only. Kernels hold no state and draw no randomness: arrays in (random words included), arrays out.
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "embedding.hpp"
#include "flips.hpp"
#include "keys.hpp"
#include "noise.hpp"
#include "parallel.hpp"
#include "rounding.hpp"
#include "siphash.hpp"
#include "table.hpp"
#include "universal.hpp"

using namespace sparsedp;

static Out<uint64_t> geometric(In<uint64_t> words, In<uint64_t> thresholds) {
    const size_t digits = thresholds.size();
    require(digits > 0 && words.size() % digits == 0, "words must be a multiple of the number of digits");
    const uint64_t *w = words.data(), *t = thresholds.data();
    return map<uint64_t>(words.size() / digits,
                         [=](size_t i) { return geometric_low_digits(w + i * digits, t, digits); });
}

static Out<int64_t> two_sided(In<uint64_t> words, uint64_t zero, In<uint64_t> thresholds) {
    const size_t digits = thresholds.size(), stride = digits + 2;
    require(digits < 63, "a two-sided magnitude has fewer than 63 digits");
    require(words.size() % stride == 0, "words must be a multiple of the number of digits plus two");
    const uint64_t *w = words.data(), *t = thresholds.data();
    return map<int64_t>(words.size() / stride,
                        [=](size_t i) { return two_sided_low_digits(w + i * stride, zero, t, digits); });
}

static void flip(InOut array, In<uint64_t> words, uint64_t numerator, unsigned digits) {
    require(digits >= 1 && digits <= 63 && numerator >> digits == 0, "numerator must be below 2^digits");
    require(words.size() == array.size() * digits, "words must be digits for each word of the array");
    const uint64_t* w = words.data();
    uint64_t* a = array.data();
    const size_t length = array.size();
    Unlocked unlocked;
    for (size_t i = 0; i < length; ++i) a[i] ^= bernoulli_word(w + i * digits, numerator, digits);
}

// The hash of one key, or None if it is not a key: the caller explains.
static nb::object hash_key(uint64_t k0, uint64_t k1, nb::handle key) {
    uint64_t out;
    const KeyKind kind = kind_of(key.ptr());
    if (kind != no_key && hash_object({k0, k1}, key.ptr(), kind, &out)) return nb::int_(out);
    PyErr_Clear();
    return nb::none();
}

static uint64_t siphash24(nb::bytes key, nb::bytes message) {
    require(key.size() == 16, "a SipHash key has 16 bytes");
    const auto* k = static_cast<const uint8_t*>(key.data());
    return siphash({load_little_endian(k, 8), load_little_endian(k + 8, 8)},
                   static_cast<const uint8_t*>(message.data()), message.size(), -1);
}

// Applies convert(object, kind, out) to every key of a list or tuple, all of the kind of the first. Returns the array,
// or the position of the first key that has another kind, no kind, or cannot be converted: the caller explains.
template <typename Convert>
static nb::object convert_keys(nb::object sequence, Convert convert) {
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

static nb::object hash_objects(uint64_t k0, uint64_t k1, nb::object keys) {
    return convert_keys(
        keys, [=](PyObject* object, KeyKind kind, uint64_t* out) { return hash_object({k0, k1}, object, kind, out); });
}

// Integer keys unchanged, each at most `largest`.
static nb::object integer_objects(nb::object keys, uint64_t largest) {
    return convert_keys(keys, [=](PyObject* object, KeyKind kind, uint64_t* out) {
        bool negative;
        return kind == integer_key && integer_bits(object, out, &negative) && !negative && *out <= largest;
    });
}

static Out<uint64_t> hash_signed_array(uint64_t k0, uint64_t k1, In<int64_t> values) {
    const int64_t* v = values.data();
    return map<uint64_t>(values.size(), [=](size_t i) { return hash_signed({k0, k1}, v[i]); });
}

static Out<uint64_t> hash_unsigned_array(uint64_t k0, uint64_t k1, In<uint64_t> values) {
    const uint64_t* v = values.data();
    return map<uint64_t>(values.size(), [=](size_t i) { return hash_unsigned({k0, k1}, v[i]); });
}

// An Arrow (large_)string or (large_)binary column: offsets and one run of bytes.
template <typename Offset>
static Out<uint64_t> hash_column(uint64_t k0, uint64_t k1, In<Offset> offsets, In<uint8_t> data, bool text) {
    require(offsets.size() >= 1, "a string column has at least one offset");
    const size_t length = offsets.size() - 1;
    const Offset* o = offsets.data();
    const uint8_t* d = data.data();
    require(o[0] >= 0 && static_cast<uint64_t>(o[length]) <= data.size(), "offsets must lie inside the data");
    for (size_t i = 0; i < length; ++i) require(o[i] <= o[i + 1], "offsets must not decrease");
    const int tag = text ? text_tag : bytes_tag;
    return map<uint64_t>(length, [=](size_t i) {
        return siphash({k0, k1}, d + o[i], static_cast<size_t>(o[i + 1] - o[i]), tag);
    });
}

// An Arrow string_view or binary_view column: 16 bytes for each key, which hold the key if it has at most 12 bytes, and
// otherwise its length, its first four bytes, and its buffer and the position there.
static Out<uint64_t> hash_views(uint64_t k0, uint64_t k1, In<uint8_t> views, std::vector<In<uint8_t>> buffers,
                                bool text) {
    require(views.size() % 16 == 0, "a view has 16 bytes");
    const size_t length = views.size() / 16;
    const uint8_t* v = views.data();
    const auto field = [=](size_t i, size_t at) {
        int32_t value;
        std::memcpy(&value, v + 16 * i + at, 4);
        return value;
    };
    for (size_t i = 0; i < length; ++i) {
        const int64_t size = field(i, 0);
        require(size >= 0, "a view has a length");
        if (size <= 12) continue;
        const int64_t buffer = field(i, 8), offset = field(i, 12);
        require(buffer >= 0 && static_cast<size_t>(buffer) < buffers.size(), "a view lies in a buffer");
        require(offset >= 0 && static_cast<size_t>(offset + size) <= buffers[static_cast<size_t>(buffer)].size(),
                "a view lies inside of its buffer");
    }
    std::vector<const uint8_t*> data;
    for (const auto& buffer : buffers) data.push_back(buffer.data());
    const int tag = text ? text_tag : bytes_tag;
    return map<uint64_t>(length, [&](size_t i) {
        const size_t size = static_cast<size_t>(field(i, 0));
        const uint8_t* key = size <= 12 ? v + 16 * i + 4 : data[static_cast<size_t>(field(i, 8))] + field(i, 12);
        return siphash({k0, k1}, key, size, tag);
    });
}

// NumPy bytes of a fixed width: keys end before their trailing zeros.
static Out<uint64_t> hash_fixed_bytes(uint64_t k0, uint64_t k1, In<uint8_t> data, size_t width) {
    require(width >= 1 && data.size() % width == 0, "every key has the same width");
    const uint8_t* d = data.data();
    return map<uint64_t>(data.size() / width, [=](size_t i) {
        size_t size = width;
        while (size > 0 && d[i * width + size - 1] == 0) --size;
        return siphash({k0, k1}, d + i * width, size, bytes_tag);
    });
}

// NumPy strings of a fixed width in UCS-4, or the position of the first that is not valid Unicode.
static nb::object hash_fixed_text(uint64_t k0, uint64_t k1, In<uint32_t> data, size_t width) {
    require(width >= 1 && data.size() % width == 0, "every key has the same width");
    const uint32_t* d = data.data();
    const size_t length = data.size() / width;
    const auto is_letter = [](uint32_t c) { return c < 0xd800 || (c >= 0xe000 && c <= 0x10ffff); };
    for (size_t i = 0; i < data.size(); ++i)
        if (!is_letter(d[i])) return nb::int_(i / width);
    auto out = uninitialised<uint64_t>(length);
    {
        Unlocked unlocked;
        parallel_for(length, size_t{1} << 15, [&](size_t begin, size_t end) {
            std::vector<uint8_t> utf8(4 * width);
            for (size_t i = begin; i < end; ++i) {
                size_t letters = width;
                while (letters > 0 && d[i * width + letters - 1] == 0) --letters;
                const size_t size = encode_utf8(d + i * width, letters, utf8.data());
                out[i] = siphash({k0, k1}, utf8.data(), size, text_tag);
            }
        });
    }
    return nb::cast(own(std::move(out), length));
}

// Copies the coefficients, so that a kernel never depends on the layout of the struct in Python's memory.
static std::unique_ptr<RowFunction[]> row_functions(const InMatrix& coefficients) {
    require(coefficients.shape(1) == 4, "a row function has four words");
    auto functions = std::make_unique<RowFunction[]>(coefficients.shape(0));
    for (size_t j = 0; j < coefficients.shape(0); ++j) {
        const uint64_t* c = coefficients.data() + 4 * j;
        require(c[1] >> 25 == 0 && c[3] >> 25 == 0, "coefficients must be below 2^89");
        functions[j] = {c[0], c[1], c[2], c[3]};
    }
    return functions;
}

static ColumnLayout column_layout(const RowFunction* functions, size_t levels, uint64_t rows, size_t array_size) {
    require(rows >= 1 && rows >> 39 == 0, "rows must be in 1..2^39 - 1");
    const size_t words_per_level = static_cast<size_t>((rows + 63) / 64);
    require(array_size == levels * words_per_level, "the array must have ceil(rows / 64) words for each level");
    return {functions, levels, rows, words_per_level};
}

static Out<uint64_t> rows_of(InMatrix coefficients, uint64_t rows, uint64_t level, In<uint64_t> ids) {
    require(level < coefficients.shape(0), "no such level");
    require(rows >= 1 && rows >> 39 == 0, "rows must be in 1..2^39 - 1");
    const auto functions = row_functions(coefficients);
    const RowFunction function = functions[level];
    const uint64_t* x = ids.data();
    return map<uint64_t>(ids.size(), [=](size_t i) { return function.row(x[i], rows); });
}

static void embed_columns(InOut array, InMatrix coefficients, uint64_t rows, In<uint64_t> ids,
                          In<uint64_t> heights) {
    require(ids.size() == heights.size(), "one height for each id");
    const auto functions = row_functions(coefficients);
    const size_t levels = coefficients.shape(0), count = ids.size();
    const ColumnLayout layout = column_layout(functions.get(), levels, rows, array.size());
    const uint64_t *x = ids.data(), *y = heights.data();
    uint64_t* bits = array.data();
    for (size_t i = 0; i < count; ++i) require(y[i] <= levels, "a height exceeds the number of levels");
    Unlocked unlocked;
    for (size_t i = 0; i < count; ++i) set_unary(layout, bits, x[i], y[i]);
}

static Out<double> estimate_columns(In<uint64_t> array, InMatrix coefficients, uint64_t rows, In<uint64_t> ids) {
    const auto functions = row_functions(coefficients);
    const ColumnLayout layout = column_layout(functions.get(), coefficients.shape(0), rows, array.size());
    const uint64_t *bits = array.data(), *x = ids.data();
    return map<double>(ids.size(), [=](size_t i) { return estimate_unary(layout, bits, x[i]); });
}

// ALP1-estimator on explicit bits, one row of words per estimate: for simulations.
static Out<double> estimate_rows(InMatrix words, size_t levels) {
    const size_t stride = words.shape(1);
    require(levels <= 64 * stride, "more levels than bits");
    const uint64_t* w = words.data();
    return map<double>(words.shape(0), [=](size_t i) { return estimate_words(w + i * stride, levels); });
}

static Out<uint64_t> unary_heights(In<uint64_t> counts, uint64_t cap, uint64_t slope_whole, uint64_t slope_fraction,
                                   uint64_t levels, In<uint64_t> words) {
    require(counts.size() == words.size(), "one random word for each count");
    const uint64_t *c = counts.data(), *w = words.data();
    return map<uint64_t>(counts.size(), [=](size_t i) {
        return unary_height(c[i], cap, slope_whole, slope_fraction, levels, w[i]);
    });
}

// Random rounding of reals to signed multiples of the step. If the cells of a value do not fit in 63 bits, returns the
// position of the first such value, as an integer, instead of an array.
static nb::object round_to_grid(In<double> values, uint64_t numerator, uint64_t denominator, In<uint64_t> words) {
    require(values.size() == words.size(), "one random word for each value");
    require(numerator >= 1 && numerator >> 53 == 0 && denominator >= 1 && denominator >> 53 == 0,
            "numerator and denominator of the step must be in 1..2^53 - 1");
    const double* v = values.data();
    const uint64_t* w = words.data();
    const size_t length = values.size();
    auto out = uninitialised<int64_t>(length);
    size_t bad = length;
    {
        Unlocked unlocked;
        for (size_t i = 0; i < length && bad == length; ++i) {
            if (!(std::fabs(v[i]) < 9223372036854775808.0)) {
                bad = i;
                break;
            }
            const FixedPoint cells = divide_by_step(v[i], numerator, denominator);
            const uint64_t rounded = cells.whole + (w[i] < cells.fraction ? 1 : 0);
            if (cells.overflow || rounded >> 63) bad = i;
            const int64_t magnitude = static_cast<int64_t>(rounded);
            out[i] = v[i] < 0 ? -magnitude : magnitude;
        }
    }
    if (bad != length) return nb::int_(bad);
    return nb::cast(own(std::move(out), length));
}

// The sums of the runs of values that begin at `starts`, each rounded at random to a multiple of the step, cut to ±limit.
static Out<int64_t> round_sums(In<double> values, In<int64_t> starts, uint64_t numerator, uint64_t denominator,
                               In<uint64_t> words, int64_t limit) {
    require(starts.size() == words.size(), "one random word for each run");
    require(numerator >= 1 && numerator >> 53 == 0 && denominator >= 1 && denominator >> 53 == 0,
            "numerator and denominator of the step must be in 1..2^53 - 1");
    require(limit >= 0, "a limit is not negative");
    const double* v = values.data();
    const int64_t* s = starts.data();
    const uint64_t* w = words.data();
    const size_t length = values.size(), runs = starts.size();
    for (size_t i = 0; i < runs; ++i)
        require(s[i] >= 0 && static_cast<size_t>(s[i]) <= (i + 1 < runs ? static_cast<size_t>(s[i + 1]) : length),
                "runs begin one after the other, inside the values");
    for (size_t i = 0; i < length; ++i) {
        require(std::fabs(v[i]) < 9223372036854775808.0, "a value is 2^63 or more");
        require(!divide_by_step(v[i], numerator, denominator).overflow, "a value is 2^63 steps or more");
    }
    return map<int64_t>(runs, [=](size_t i) {
        const size_t begin = static_cast<size_t>(s[i]), end = i + 1 < runs ? static_cast<size_t>(s[i + 1]) : length;
        return round_sum(v + begin, end - begin, numerator, denominator, w[i], limit);
    });
}

// floor(2^64 part / step) for parts below the step.
static Out<uint64_t> fractions(In<uint64_t> parts, uint64_t step) {
    const uint64_t* p = parts.data();
    for (size_t i = 0; i < parts.size(); ++i) require(p[i] < step, "a part must be below the step");
    return map<uint64_t>(parts.size(),
                         [=](size_t i) { return static_cast<uint64_t>((static_cast<uint128>(p[i]) << 64) / step); });
}

static Out<int64_t> find(In<uint64_t> table, In<uint64_t> ids) {
    const uint64_t *t = table.data(), *x = ids.data();
    const size_t count = table.size();
    return map<int64_t>(ids.size(), [=](size_t i) { return find_sorted(t, count, x[i]); });
}

NB_MODULE(_native, m) {
    numpy_bool = nb::object(nb::module_::import_("numpy").attr("bool_")).release().ptr();
    register_exit();
    register_blocks(m);
    register_readers(m);
    register_retrieval(m);
    register_sorting(m);
    m.doc() = "Kernels of sparsedp: stateless, without randomness of their own.";
    m.def("thread_count", &thread_count);
    m.def("geometric", &geometric, nb::arg("words"), nb::arg("thresholds"));
    m.def("two_sided", &two_sided, nb::arg("words"), nb::arg("zero"), nb::arg("thresholds"));
    m.def("flip", &flip, nb::arg("array"), nb::arg("words"), nb::arg("numerator"), nb::arg("digits"));
    m.def("siphash24", &siphash24, nb::arg("key"), nb::arg("message"));
    m.def("hash_objects", &hash_objects, nb::arg("k0"), nb::arg("k1"), nb::arg("keys"));
    m.def("hash_key", &hash_key, nb::arg("k0"), nb::arg("k1"), nb::arg("key").none());
    m.def("integer_objects", &integer_objects, nb::arg("keys"), nb::arg("largest"));
    m.def("hash_signed", &hash_signed_array, nb::arg("k0"), nb::arg("k1"), nb::arg("values"));
    m.def("hash_unsigned", &hash_unsigned_array, nb::arg("k0"), nb::arg("k1"), nb::arg("values"));
    m.def("hash_column", &hash_column<int32_t>, nb::arg("k0"), nb::arg("k1"), nb::arg("offsets"), nb::arg("data"),
          nb::arg("text"));
    m.def("hash_large_column", &hash_column<int64_t>, nb::arg("k0"), nb::arg("k1"), nb::arg("offsets"),
          nb::arg("data"), nb::arg("text"));
    m.def("hash_views", &hash_views, nb::arg("k0"), nb::arg("k1"), nb::arg("views"), nb::arg("buffers"),
          nb::arg("text"));
    m.def("hash_fixed_bytes", &hash_fixed_bytes, nb::arg("k0"), nb::arg("k1"), nb::arg("data"), nb::arg("width"));
    m.def("hash_fixed_text", &hash_fixed_text, nb::arg("k0"), nb::arg("k1"), nb::arg("data"), nb::arg("width"));
    m.def("rows_of", &rows_of, nb::arg("coefficients"), nb::arg("rows"), nb::arg("level"), nb::arg("ids"));
    m.def("embed_columns", &embed_columns, nb::arg("array"), nb::arg("coefficients"), nb::arg("rows"),
          nb::arg("ids"), nb::arg("heights"));
    m.def("estimate_columns", &estimate_columns, nb::arg("array"), nb::arg("coefficients"), nb::arg("rows"),
          nb::arg("ids"));
    m.def("estimate_rows", &estimate_rows, nb::arg("words"), nb::arg("levels"));
    m.def("unary_heights", &unary_heights, nb::arg("counts"), nb::arg("cap"), nb::arg("slope_whole"),
          nb::arg("slope_fraction"), nb::arg("levels"), nb::arg("words"));
    m.def("round_to_grid", &round_to_grid, nb::arg("values"), nb::arg("numerator"), nb::arg("denominator"),
          nb::arg("words"));
    m.def("round_sums", &round_sums, nb::arg("values"), nb::arg("starts"), nb::arg("numerator"),
          nb::arg("denominator"), nb::arg("words"), nb::arg("limit"));
    m.def("fractions", &fractions, nb::arg("parts"), nb::arg("step"));
    m.def("find", &find, nb::arg("table"), nb::arg("ids"));
}
