// Keys of several columns against the plain encoding: a column of text, and one of a fixed width and any tag.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "checking.hpp"
#include "composite.hpp"
#include "plain_keys.hpp"

namespace sparsedp::fuzz {

// Tag, length in four bytes, payload.
inline void append_component(Bytes& out, uint8_t tag, const Bytes& payload) {
    out.push_back(tag);
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<uint8_t>(payload.size() >> (8 * i)));
    out.insert(out.end(), payload.begin(), payload.end());
}

// A value of a fixed width: integers that may be large have eight bytes, and a tag by their size.
inline void append_fixed(Bytes& out, uint8_t tag, const Bytes& value) {
    if (tag != 'u') {
        append_component(out, tag, value);
        return;
    }
    const bool negative = value.size() == 16 && value[15] >= 128;
    const Bytes low(value.begin(), value.begin() + 8);
    append_component(out, low[7] >= 128 && !negative ? 'u' : 'i', low);
}

// Offsets and data as they are, or else such that they fit: as many rows in both columns, and offsets that ascend.
inline void try_composite(SipKey key, uint64_t choice, std::vector<int64_t> offsets, Bytes data, bool likely) {
    const uint8_t tag = "ubdmiul"[choice % 7];
    size_t width = choice / 7 % 18;
    if (likely) {
        width = tag == 'u' ? 8 + choice / 7 % 2 * 8 : 1 + choice / 7 % 16;
        const auto most = static_cast<int64_t>(data.size() + 1);
        for (int64_t& offset : offsets) offset = (offset % most + most) % most;
        std::sort(offsets.begin(), offsets.end());
        if (offsets.empty()) offsets.push_back(0);
    }
    const size_t rows = likely ? offsets.size() - 1 : choice / 126 % 8;
    Bytes fixed(likely || choice % 2 == 0 ? rows * width : data.size());
    for (size_t i = 0; i < fixed.size(); ++i)
        fixed[i] = data.empty() ? static_cast<uint8_t>(choice) : data[i % data.size()];

    bool fits = width >= 1 && width <= 16 && (tag != 'u' || width == 8 || width == 16) && fixed.size() == rows * width;
    fits = fits && offsets.size() == rows + 1 && offsets[0] >= 0 && std::is_sorted(offsets.begin(), offsets.end());
    fits = fits && static_cast<uint64_t>(offsets.back()) <= data.size();
    const bool taken = is_taken([&] {
        const CompositeKeys keys({{'s', 0, span(offsets), span(data)}, {tag, width, {nullptr, 0}, span(fixed)}}, rows);
        check(fits, "columns that do not fit were taken");
        std::vector<uint64_t> hashed(rows);
        keys.hash_all(key, hashed.data());
        for (size_t i = 0; i < rows; ++i) {
            Bytes plain;
            append_component(plain, 's', Bytes(data.begin() + offsets[i], data.begin() + offsets[i + 1]));
            const auto at = fixed.begin() + static_cast<std::ptrdiff_t>(i * width);
            append_fixed(plain, tag, Bytes(at, at + static_cast<std::ptrdiff_t>(width)));
            check(hashed[i] == plain_hash(key, plain, 't'), "a composite key is hashed unlike its bytes");
            plain.push_back('t');
            Bytes written(keys.length(i));
            keys.write(i, written.data());
            check(written == plain, "a composite key is written unlike its bytes");
        }
    });
    check(taken == fits, "columns were refused without reason");
}

}  // namespace sparsedp::fuzz
