// The key encoder against the plain one: integers, text and bytes of fixed width, columns of offsets, of views and of
// integers of 128 bits.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "checking.hpp"
#include "key_batch.hpp"
#include "key_columns.hpp"
#include "keys.hpp"
#include "plain_keys.hpp"

namespace sparsedp::fuzz {

inline std::vector<uint64_t> ids_of(const KeyBatch& keys) {
    std::vector<uint64_t> ids(keys.size());
    keys.all_ids(ids.data());
    return ids;
}

inline void try_integer(SipKey key, uint64_t bits) {
    const uint64_t small = plain_hash(key, plain_integer(bits), 'i');
    check(hash_signed(key, static_cast<int64_t>(bits)) == small, "a signed integer is hashed unlike its bytes");
    const uint64_t plain = bits < uint64_t{1} << 63 ? small : plain_hash(key, plain_integer(bits), 'u');
    check(hash_unsigned(key, bits) == plain, "an unsigned integer is hashed unlike its bytes");
    check(siphash(key, plain_integer(bits).data(), 8, integer_tag) == small, "the tag is not the last byte");
}

// Words of which many are the high word of a key: 0 or -1.
inline void try_wide_integers(SipKey key, std::vector<int64_t> words) {
    for (size_t i = 1; i < words.size(); i += 2)
        if (words[i] % 4 != 0) words[i] = words[i] % 4 < 0 ? -1 : 0;
    const std::vector<uint64_t> bits(words.begin(), words.end());
    size_t outside = words.size() / 2;
    for (size_t i = words.size() / 2; i-- > 0;) {
        const bool negative = words[2 * i] < 0;
        if (words[2 * i + 1] != 0 && (words[2 * i + 1] != -1 || !negative)) outside = i;
    }
    const bool taken = is_taken([&] {
        const WideColumn column(key, span(bits));
        check(column.size() == words.size() / 2, "a column of wide integers has another number of keys");
        check(column.first_outside() == outside, "another integer is the first that is no key");
        std::vector<uint64_t> found(outside);
        column.ids(0, outside, found.data());
        for (size_t i = 0; i < outside; ++i) {
            const bool large = words[2 * i + 1] == 0 && words[2 * i] < 0;
            const Bytes bytes = plain_integer(static_cast<uint64_t>(words[2 * i]));
            check(found[i] == plain_hash(key, bytes, large ? 'u' : 'i'), "a wide integer is hashed unlike its bytes");
        }
    });
    check(taken == (words.size() % 2 == 0), "half of a wide integer was taken, or whole ones were refused");
}

// Few random words are letters, so most are made some: of one to four bytes, or almost a letter.
inline uint32_t almost_letter(uint32_t word) {
    static constexpr uint32_t edges[] = {0,      0x7f,   0x80,   0x7ff,   0x800,    0xd7ff,  0xd800,
                                         0xdfff, 0xe000, 0xffff, 0x10000, 0x10ffff, 0x110000};
    switch (word >> 28) {
        case 0: return edges[word % (sizeof edges / sizeof *edges)];
        case 1: return word;
        case 2: return word % 0x110000;
        case 3:
        case 4:
        case 5: return 0x10000 + word % 0x100000;
        case 6:
        case 7:
        case 8: return 0x800 + word % 0xd000;
        case 9:
        case 10:
        case 11: return 0x80 + word % 0x780;
        default: return word % 0x80;
    }
}

inline void try_fixed_text(SipKey key, std::vector<uint32_t> letters, size_t width) {
    for (uint32_t& letter : letters) letter = almost_letter(letter);
    const size_t keys = width == 0 ? 0 : letters.size() / width;
    size_t invalid = keys;
    std::vector<uint64_t> plain(keys), hashed(keys);
    for (size_t i = 0; i < keys; ++i) {
        Bytes utf8;
        size_t before_zeros = 0;
        for (size_t j = 0; j < width; ++j) {
            const uint32_t c = letters[i * width + j];
            if (invalid == keys && ((c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)) invalid = i;
            append_utf8(utf8, c);
            if (c != 0) before_zeros = utf8.size();
        }
        utf8.resize(before_zeros);
        plain[i] = plain_hash(key, utf8, 's');
    }
    const bool fits = width > 0 && letters.size() % width == 0;
    const bool taken = is_taken([&] {
        const FixedTextColumn column(key, span(letters), width);
        check(column.size() == keys, "a text column has another number of keys");
        check(column.first_invalid() == invalid, "another text is the first that is invalid");
        if (invalid < keys) return;
        column.all_ids(hashed.data());
        check(hashed == plain, "a text is hashed unlike its UTF-8");
    });
    check(taken == fits, "text of a fixed width was refused, or should have been");
}

inline void try_fixed_bytes(SipKey key, const Bytes& data, size_t width) {
    const bool taken = is_taken([&] {
        const FixedBytesColumn column(key, span(data), width);
        const std::vector<uint64_t> ids = ids_of(column);
        for (size_t i = 0; i < column.size(); ++i) {
            Bytes bytes(data.data() + i * width, data.data() + (i + 1) * width);
            while (!bytes.empty() && bytes.back() == 0) bytes.pop_back();
            check(ids[i] == plain_hash(key, bytes, 'b'), "bytes of a fixed width are hashed unlike themselves");
        }
    });
    check(taken == (width > 0 && data.size() % width == 0), "bytes of a fixed width were refused, or should have been");
}

// Offsets as they are, which are refused nearly always, or else made such that they ascend inside the data.
template <typename Offset>
void try_offsets(SipKey key, std::vector<Offset> offsets, const Bytes& data, bool ascending) {
    if (ascending) {
        const auto most = static_cast<Offset>(data.size() + 1);
        for (Offset& offset : offsets) offset = static_cast<Offset>((offset % most + most) % most);
        std::sort(offsets.begin(), offsets.end());
    }
    bool fits = !offsets.empty();
    Offset before = 0;
    for (const Offset offset : offsets) {
        fits = fits && before <= offset && static_cast<uint64_t>(offset) <= data.size();
        before = offset;
    }
    const bool taken = is_taken([&] {
        const OffsetColumn<Offset> column(key, span(offsets), span(data), text_tag);
        check(fits, "offsets that leave the data were taken");
        check(column.size() == offsets.size() - 1, "a string column has another number of keys");
        const std::vector<uint64_t> ids = ids_of(column);
        for (size_t i = 0; i < column.size(); ++i) {
            const Bytes bytes(data.data() + offsets[i], data.data() + offsets[i + 1]);
            check(ids[i] == plain_hash(key, bytes, 's'), "a key of a string column is hashed unlike its bytes");
        }
    });
    check(taken == fits, "a string column was refused without reason");
}

// The four fields of a view: its length, and either its bytes, or the first four, its buffer and where it lies there.
using View = std::array<int32_t, 4>;

// The bytes of a view; false if it leaves its buffer, or there is none.
inline bool plain_view(const View& view, const std::vector<Bytes>& buffers, Bytes& out) {
    const auto [length, prefix, buffer, offset] = view;
    if (length < 0) return false;
    if (length <= 12) {
        out.resize(12);
        std::memcpy(out.data(), &view[1], 12);
        out.resize(static_cast<size_t>(length));
        return true;
    }
    if (buffer < 0 || static_cast<size_t>(buffer) >= buffers.size() || offset < 0) return false;
    const Bytes& bytes = buffers[static_cast<size_t>(buffer)];
    if (static_cast<int64_t>(offset) + length > static_cast<int64_t>(bytes.size())) return false;
    out.assign(bytes.begin() + offset, bytes.begin() + offset + length);
    return true;
}

// Views as they are, or else made such that they mostly lie in their buffers.
inline void try_views(SipKey key, Bytes raw, const std::vector<Bytes>& buffers, bool mostly_inside) {
    std::vector<View> views = elements<View>(raw);
    std::vector<Bytes> plain(views.size());
    bool fits = raw.size() % 16 == 0;
    for (size_t i = 0; i < views.size(); ++i) {
        if (mostly_inside) {
            views[i][0] &= 31;
            if (views[i][0] > 12) views[i] = {views[i][0], 0, views[i][2] & 1, views[i][3] & 31};
            std::memcpy(raw.data() + 16 * i, views[i].data(), 16);
        }
        fits = plain_view(views[i], buffers, plain[i]) && fits;
    }
    std::vector<Span<const uint8_t>> given;
    given.reserve(buffers.size());
    for (const Bytes& buffer : buffers) given.push_back(span(buffer));
    const bool taken = is_taken([&] {
        const ViewColumn column(key, span(raw), given, bytes_tag);
        check(fits, "a view that leaves its buffer was taken");
        check(column.size() == plain.size(), "a column of views has another number of keys");
        const std::vector<uint64_t> ids = ids_of(column);
        for (size_t i = 0; i < plain.size(); ++i)
            check(ids[i] == plain_hash(key, plain[i], 'b'), "a view is hashed unlike its bytes");
    });
    check(taken == fits, "views were refused without reason");
}

}  // namespace sparsedp::fuzz
