// Keys of several columns: their canonical bytes, and from these their fingerprints (src/sparsedp/keys/encoding.py).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "key_batch.hpp"
#include "keys.hpp"
#include "parallel.hpp"

namespace sparsedp {

// One column of a key: values of a fixed width, one after the other, or text or bytes between offsets. Integers are
// signed ('i', 8 bytes), unsigned ('u', 8 bytes), or either ('u', 16 bytes, of which the lower eight are the integer).
struct Component {
    uint8_t tag;
    size_t width;  // 0 for a column with offsets
    Span<const int64_t> offsets;
    Span<const uint8_t> data;
};

// The rows of several columns. The canonical bytes of a row are, for each column, its tag, the length of its payload in
// four bytes, and the payload; and at the end `composite_tag`.
class CompositeKeys {
   public:
    static constexpr uint8_t composite_tag = 't';

    CompositeKeys(std::vector<Component> columns, size_t rows) : columns_(std::move(columns)), rows_(rows) {
        require(!columns_.empty(), "a key has at least one column");
        for (const Component& column : columns_) {
            require(column.tag != large_integer_tag || column.width == 8 || column.width == 16,
                    "an integer has 8 or 16 bytes");
            if (column.width > 0) {
                require(column.width <= 16 && column.data.size % column.width == 0 &&
                            column.data.size / column.width == rows,
                        "every column has a value for each row");
                continue;
            }
            const Span<const int64_t> offsets = column.offsets;
            require(offsets.size >= 1 && offsets.size - 1 == rows, "a column has an offset for each row and its end");
            require(offsets[0] >= 0 && static_cast<uint64_t>(offsets[rows]) <= column.data.size,
                    "offsets must lie inside the data");
            for (size_t i = 0; i < rows; ++i) {
                require(offsets[i] <= offsets[i + 1], "offsets must not decrease");
                require(offsets[i + 1] - offsets[i] <= int64_t{UINT32_MAX}, "a value has fewer than 2^32 bytes");
            }
        }
    }

    size_t size() const { return rows_; }

    // The number of canonical bytes of a row.
    size_t length(size_t row) const {
        size_t total = 1;
        for (const Component& column : columns_) total += header_bytes + payload(column, row);
        return total;
    }

    // Writes the canonical bytes of a row.
    void write(size_t row, uint8_t* out) const {
        for (const Component& column : columns_) {
            const size_t length = payload(column, row);
            const uint8_t* bytes =
                column.data.data + (column.width > 0 ? row * column.width : static_cast<size_t>(column.offsets[row]));
            *out++ = column.tag == large_integer_tag ? integer_tag_of(bytes, column.width) : column.tag;
            for (int i = 0; i < 4; ++i) *out++ = static_cast<uint8_t>(length >> (8 * i));
            if (length > 0) std::memcpy(out, bytes, length);
            out += length;
        }
        *out = composite_tag;
    }

    // The fingerprints of all rows.
    void hash_all(SipKey key, uint64_t* out) const {
        parallel_for(rows_, size_t{1} << 14, [&](size_t begin, size_t end) {
            std::vector<uint8_t> bytes[messages_at_once];
            hash_messages(key, no_tag, begin, end - begin, out + begin, [&](size_t row, size_t slot) {
                const size_t total = length(row);
                if (total > bytes[slot].size()) bytes[slot].resize(2 * total);
                write(row, bytes[slot].data());
                return Message{bytes[slot].data(), total};
            });
        });
    }

   private:
    static constexpr size_t header_bytes = 5;
    static constexpr size_t integer_bytes = 8;

    static size_t payload(const Component& column, size_t row) {
        if (column.width == 0) return static_cast<size_t>(column.offsets[row + 1] - column.offsets[row]);
        return column.tag == large_integer_tag ? integer_bytes : column.width;
    }

    // Integers below 2^63 have the tag of signed ones, whichever column they are from.
    static uint8_t integer_tag_of(const uint8_t* bytes, size_t width) {
        const bool negative = width == 16 && bytes[15] >> 7 != 0;
        return bytes[7] >> 7 != 0 && !negative ? large_integer_tag : integer_tag;
    }

    std::vector<Component> columns_;
    size_t rows_;
};

}  // namespace sparsedp
