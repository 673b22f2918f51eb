// Columns of keys as other libraries hand them over: by Arrow's C data and stream interfaces
// (https://arrow.apache.org/docs/format/CDataInterface.html), whose structs these are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "arrays.hpp"
#include "key_batch.hpp"
#include "key_columns.hpp"
#include "keys.hpp"

namespace sparsedp {

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, children_count;
    ArrowSchema **children, *dictionary;
    void (*release)(ArrowSchema*);
    void* owner;
};

struct ArrowArray {
    int64_t length, null_count, offset, buffers_count, children_count;
    const void** buffers;
    ArrowArray **children, *dictionary;
    void (*release)(ArrowArray*);
    void* owner;
};

struct ArrowStream {
    int (*get_schema)(ArrowStream*, ArrowSchema*);
    int (*get_next)(ArrowStream*, ArrowArray*);
    const char* (*get_last_error)(ArrowStream*);
    void (*release)(ArrowStream*);
    void* owner;
};

// What another library filled in, until it is no longer needed.
template <typename Struct>
class Imported {
   public:
    Imported() = default;
    Imported(const Imported&) = delete;
    Imported& operator=(const Imported&) = delete;
    ~Imported() {
        if (filled()) it_.release(&it_);
    }

    bool filled() const { return it_.release != nullptr; }
    Struct* get() { return &it_; }
    const Struct* operator->() const { return &it_; }
    const Struct& operator*() const { return it_; }

   private:
    Struct it_{};
};

// The keys of an array in one of the usual layouts, without nulls: strings or bytes with offsets of 32 bits, and
// integers of 128 bits. Null for any other array, and if an integer is no key. Another library vouches for the sizes of
// its buffers, which this interface does not tell.
inline std::unique_ptr<KeyBatch> arrow_keys(SipKey key, KeyTag tag, const char* format, const ArrowArray& array) {
    const bool wide = std::strcmp(format, "d:38,0") == 0;
    const char* const wanted = tag == text_tag ? "u" : tag == bytes_tag ? "z" : "d:38,0";
    if (std::strcmp(format, wanted) != 0 || array.length < 1 || array.offset < 0 || array.dictionary != nullptr ||
        array.buffers_count != (wide ? 2 : 3) || (array.null_count != 0 && array.buffers[0] != nullptr) ||
        array.buffers[1] == nullptr)
        return nullptr;
    const auto begin = static_cast<size_t>(array.offset), count = static_cast<size_t>(array.length);
    if (wide) {
        const auto* words = static_cast<const uint64_t*>(array.buffers[1]) + 2 * begin;
        auto column = std::make_unique<WideColumn>(key, Span<const uint64_t>{words, 2 * count});
        return column->first_outside() == count ? std::move(column) : nullptr;
    }
    static constexpr uint8_t nothing = 0;  // where no key has a byte, there may be no buffer
    const auto* offsets = static_cast<const int32_t*>(array.buffers[1]) + begin;
    const auto* data = static_cast<const uint8_t*>(array.buffers[2]);
    const size_t size = offsets[count] < 0 ? 0 : static_cast<size_t>(offsets[count]);
    const Span<const uint8_t> bytes{data == nullptr ? &nothing : data, data == nullptr ? 0 : size};
    return std::make_unique<OffsetColumn<int32_t>>(key, Span<const int32_t>{offsets, count + 1}, bytes, tag);
}

// The same for the only array of a stream; null if there is another number of them.
class StreamKeys {
   public:
    StreamKeys(SipKey key, KeyTag tag, ArrowStream* stream) {
        Imported<ArrowSchema> schema;
        Imported<ArrowArray> next;
        if (stream->get_schema(stream, schema.get()) != 0 || stream->get_next(stream, array_.get()) != 0) return;
        if (!array_.filled() || stream->get_next(stream, next.get()) != 0 || next.filled()) return;
        keys_ = arrow_keys(key, tag, schema->format, *array_);
    }

    const KeyBatch* keys() const { return keys_.get(); }

   private:
    Imported<ArrowArray> array_;
    std::unique_ptr<KeyBatch> keys_;
};

// Numbers, as an array that owns them.
class ExportedNumbers {
   public:
    static void fill(std::unique_ptr<double[]> numbers, size_t count, ArrowArray* out) {
        auto* owner = new ExportedNumbers(std::move(numbers));
        owner->buffers_[1] = owner->numbers_.get();
        *out = {static_cast<int64_t>(count), 0, 0, 2, 0, owner->buffers_, nullptr, nullptr, release, owner};
    }

   private:
    explicit ExportedNumbers(std::unique_ptr<double[]> numbers) : numbers_(std::move(numbers)) {}

    static void release(ArrowArray* array) {
        delete static_cast<ExportedNumbers*>(array->owner);
        array->release = nullptr;
    }

    std::unique_ptr<double[]> numbers_;
    const void* buffers_[2] = {nullptr, nullptr};  // no nulls
};

// A table of one column of numbers: an array of a struct. A consumer may take the column out of it and keep only that.
class ExportedTable {
   public:
    static void fill(std::unique_ptr<double[]> numbers, size_t count, ArrowArray* out) {
        auto owner = std::make_unique<ExportedTable>();
        ExportedNumbers::fill(std::move(numbers), count, &owner->column_);
        ExportedTable* const own = owner.release();
        *out = {static_cast<int64_t>(count), 0, 0, 1, 1, own->buffers_, &own->child_, nullptr, release, own};
    }

   private:
    static void release(ArrowArray* array) {
        auto* owner = static_cast<ExportedTable*>(array->owner);
        if (owner->column_.release != nullptr) owner->column_.release(&owner->column_);
        delete owner;
        array->release = nullptr;
    }

    ArrowArray column_{}, *child_ = &column_;
    const void* buffers_[1] = {nullptr};
};

}  // namespace sparsedp
