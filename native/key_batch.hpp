// Keys that become ids a few at a time, where a kernel needs them, so that ids of many keys are never in memory at
// once.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "arrays.hpp"
#include "keys.hpp"
#include "parallel.hpp"
#include "siphash_lanes.hpp"

namespace sparsedp {

// A view of a caller's keys; it may be used by several threads.
class KeyBatch {
   public:
    KeyBatch() = default;
    KeyBatch(const KeyBatch&) = delete;
    KeyBatch& operator=(const KeyBatch&) = delete;
    virtual ~KeyBatch() = default;

    virtual size_t size() const = 0;

    // The ids of `count` keys from `begin` on.
    virtual void ids(size_t begin, size_t count, uint64_t* out) const = 0;

    void all_ids(uint64_t* out) const {
        parallel_for(size(), size_t{1} << 14, [=](size_t begin, size_t end) { ids(begin, end - begin, out + begin); });
    }
};

// Ids that are known already.
class KnownIds final : public KeyBatch {
   public:
    explicit KnownIds(Span<const uint64_t> ids) : ids_(ids) {}

    size_t size() const override { return ids_.size; }
    void ids(size_t begin, size_t count, uint64_t* out) const override {
        std::copy(ids_.data + begin, ids_.data + begin + count, out);
    }

   private:
    Span<const uint64_t> ids_;
};

// 64-bit integers, by their bits: signed ones, or unsigned ones, of which the large have a tag of their own.
class IntegerKeys final : public KeyBatch {
   public:
    IntegerKeys(SipKey key, Span<const uint64_t> bits, bool is_signed)
        : key_(key), bits_(bits), if_large_(is_signed ? 0 : integer_tag ^ large_integer_tag) {}

    size_t size() const override { return bits_.size; }
    void ids(size_t begin, size_t count, uint64_t* out) const override {
        quickest_sip().two_words(key_, bits_.data + begin, count, last_word(integer_tag), if_large_, out);
    }

   private:
    SipKey key_;
    Span<const uint64_t> bits_;
    uint64_t if_large_;
};

// The ids of `count` keys from `begin` on, whose bytes message_of(i, slot) gives. Those of up to `messages_at_once`
// slots are in use at once.
constexpr size_t messages_at_once = 16;

template <typename MessageOf>
void hash_messages(SipKey key, int tag, size_t begin, size_t count, uint64_t* out, MessageOf message_of) {
    Message messages[messages_at_once];
    for (size_t done = 0; done < count; done += messages_at_once) {
        const size_t some = std::min(messages_at_once, count - done);
        for (size_t slot = 0; slot < some; ++slot) messages[slot] = message_of(begin + done + slot, slot);
        quickest_sip().messages(key, messages, some, tag, out + done);
    }
}

}  // namespace sparsedp
