// From columns of text, bytes or wide integers to fingerprints. A column checks its buffers when it is constructed.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "key_batch.hpp"
#include "keys.hpp"

namespace sparsedp {

// An Arrow (large_)string or (large_)binary column: offsets and one run of bytes.
template <typename Offset>
class OffsetColumn final : public KeyBatch {
   public:
    OffsetColumn(SipKey key, Span<const Offset> offsets, Span<const uint8_t> data, int tag)
        : key_(key), tag_(tag), offsets_(offsets.data), data_(data.data), size_(offsets.size - 1) {
        require(offsets.size >= 1, "a string column has at least one offset");
        require(offsets[0] >= 0 && static_cast<uint64_t>(offsets[size_]) <= data.size,
                "offsets must lie inside the data");
        bool ascend = true;
        for (size_t i = 0; i < size_; ++i) ascend &= offsets[i] <= offsets[i + 1];
        require(ascend, "offsets must not decrease");
    }

    size_t size() const override { return size_; }
    void ids(size_t begin, size_t count, uint64_t* out) const override {
        hash_messages(key_, tag_, begin, count, out, [this](size_t i, size_t) {
            return Message{data_ + offsets_[i], static_cast<size_t>(offsets_[i + 1] - offsets_[i])};
        });
    }

   private:
    SipKey key_;
    int tag_;
    const Offset* offsets_;
    const uint8_t* data_;
    size_t size_;
};

// An Arrow string_view or binary_view column: 16 bytes for each key, which hold the key if it has at most 12 bytes, and
// otherwise its length, its first four bytes, and its buffer and the position there.
class ViewColumn final : public KeyBatch {
   public:
    ViewColumn(SipKey key, Span<const uint8_t> views, std::vector<Span<const uint8_t>> buffers, KeyTag tag)
        : key_(key), tag_(tag), views_(views.data), size_(views.size / 16), buffers_(std::move(buffers)) {
        require(views.size % 16 == 0, "a view has 16 bytes");
        for (size_t i = 0; i < size_; ++i) {
            const int64_t length = field(i, 0);
            require(length >= 0, "a view has a length");
            if (length <= most_inside) continue;
            const int64_t buffer = field(i, 8), offset = field(i, 12);
            require(buffer >= 0 && static_cast<size_t>(buffer) < buffers_.size(), "a view lies in a buffer");
            require(offset >= 0 && static_cast<size_t>(offset + length) <= buffers_[static_cast<size_t>(buffer)].size,
                    "a view lies inside of its buffer");
        }
    }

    size_t size() const override { return size_; }
    void ids(size_t begin, size_t count, uint64_t* out) const override {
        hash_messages(key_, tag_, begin, count, out, [this](size_t i, size_t) {
            const int32_t length = field(i, 0);
            const uint8_t* bytes = length <= most_inside
                                       ? views_ + 16 * i + 4
                                       : buffers_[static_cast<size_t>(field(i, 8))].data + field(i, 12);
            return Message{bytes, static_cast<size_t>(length)};
        });
    }

   private:
    static constexpr int32_t most_inside = 12;

    int32_t field(size_t i, size_t at) const {
        int32_t value;
        std::memcpy(&value, views_ + 16 * i + at, 4);
        return value;
    }

    SipKey key_;
    KeyTag tag_;
    const uint8_t* views_;
    size_t size_;
    std::vector<Span<const uint8_t>> buffers_;
};

// Integers of 128 bits, each a low and a high word. Keys are those of 64 bits, signed or not.
class WideColumn final : public KeyBatch {
   public:
    WideColumn(SipKey key, Span<const uint64_t> words) : key_(key), words_(words.data), size_(words.size / 2) {
        require(words.size % 2 == 0, "an integer of 128 bits has two words");
    }

    size_t size() const override { return size_; }

    // The position of the first integer that is no key, or otherwise the number of keys.
    size_t first_outside() const {
        for (size_t i = 0; i < size_; ++i)
            if (high(i) != 0 && (~high(i) != 0 || low(i) >> 63 == 0)) return i;
        return size_;
    }

    // Of integers that are all keys.
    void ids(size_t begin, size_t count, uint64_t* out) const override {
        for (size_t done = 0; done < count; done += at_once) {
            const size_t some = std::min(at_once, count - done);
            uint64_t lows[at_once], negative = 0, large = 0;
            for (size_t i = 0; i < some; ++i) {
                lows[i] = low(begin + done + i);
                negative |= high(begin + done + i);
                large |= lows[i] & ~high(begin + done + i);
            }
            // Only if both are among them, each needs to be looked at.
            if (negative == 0 || large >> 63 == 0)
                IntegerKeys(key_, {lows, some}, negative != 0).ids(0, some, out + done);
            else
                for (size_t i = 0; i < some; ++i)
                    out[done + i] = high(begin + done + i) ? hash_signed(key_, static_cast<int64_t>(lows[i]))
                                                           : hash_unsigned(key_, lows[i]);
        }
    }

   private:
    static constexpr size_t at_once = 64;

    uint64_t low(size_t i) const { return words_[2 * i]; }
    uint64_t high(size_t i) const { return words_[2 * i + 1]; }

    SipKey key_;
    const uint64_t* words_;
    size_t size_;
};

// The number of elements before the trailing zeros.
template <typename T>
size_t without_trailing_zeros(const T* elements, size_t count) {
    while (count > 0 && elements[count - 1] == 0) --count;
    return count;
}

// NumPy bytes of a fixed width: keys end before their trailing zeros.
class FixedBytesColumn final : public KeyBatch {
   public:
    FixedBytesColumn(SipKey key, Span<const uint8_t> data, size_t width) : key_(key), data_(data), width_(width) {
        require(width >= 1 && data.size % width == 0, "every key has the same width");
    }

    size_t size() const override { return data_.size / width_; }
    void ids(size_t begin, size_t count, uint64_t* out) const override {
        hash_messages(key_, bytes_tag, begin, count, out, [this](size_t i, size_t) {
            const uint8_t* bytes = data_.data + i * width_;
            return Message{bytes, without_trailing_zeros(bytes, width_)};
        });
    }

   private:
    SipKey key_;
    Span<const uint8_t> data_;
    size_t width_;
};

// NumPy strings of a fixed width in UCS-4, which also end before their trailing zeros.
class FixedTextColumn final : public KeyBatch {
   public:
    FixedTextColumn(SipKey key, Span<const uint32_t> data, size_t width) : key_(key), data_(data), width_(width) {
        require(width >= 1 && data.size % width == 0, "every key has the same width");
    }

    size_t size() const override { return data_.size / width_; }

    // The position of the first key that is not valid Unicode, or otherwise the number of keys.
    size_t first_invalid() const {
        for (size_t i = 0; i < data_.size; ++i)
            if (!is_letter(data_[i])) return i / width_;
        return size();
    }

    // Of keys that are all valid.
    void ids(size_t begin, size_t count, uint64_t* out) const override {
        std::vector<uint8_t> utf8(4 * width_ * std::min(count, messages_at_once));
        hash_messages(key_, text_tag, begin, count, out, [this, &utf8](size_t i, size_t slot) {
            const uint32_t* letters = data_.data + i * width_;
            uint8_t* bytes = utf8.data() + slot * 4 * width_;
            return Message{bytes, encode_utf8(letters, without_trailing_zeros(letters, width_), bytes)};
        });
    }

   private:
    SipKey key_;
    Span<const uint32_t> data_;
    size_t width_;
};

}  // namespace sparsedp
