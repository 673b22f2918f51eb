// What readers have besides tables: noisy symbols in blocks, slots of linear systems, or nothing. A source reads a
// number for each key, for which a reader has answers.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "blocks.hpp"
#include "buckets.hpp"
#include "retrieval.hpp"

namespace sparsedp {

// Part p of a release holds the placements whose product with the number of parts has p as its high word.
inline size_t part_of(uint64_t placement, uint64_t parts) { return static_cast<size_t>(block_of(placement, parts)); }

// Readers ask for keys in groups of at most so many.
constexpr size_t most_of_group = 32;

// Noisy symbols in cache-line blocks, of which it reads the pattern of a key.
class BlockSource {
   public:
    struct Places {
        uint64_t placements[most_of_group];
        const uint8_t* blocks[most_of_group];
    };

    static constexpr const char* one_value_for_each = "one value for each pattern";

    BlockSource(const BlockLayout& layout, Placement place, uint64_t row_seed,
                const std::vector<Span<const uint64_t>>& parts)
        : layout_(layout), place_(place), row_seed_(row_seed), parts_(parts.size()) {
        require(parts_ >= 1 && layout.blocks % parts_ == 0, "every part must have equally many blocks");
        const uint64_t each = layout.blocks / parts_;
        for (size_t part = 0; part < parts_; ++part) {
            require(holds_blocks(parts[part], each), "an array must hold its blocks");
            bases_.push_back(reinterpret_cast<const uint8_t*>(parts[part].data) - part * each * block_bytes);
        }
    }

    size_t answers() const {
        uint32_t bits = 0;
        for (size_t j = 0; j < layout_.levels; ++j) bits += layout_.bits[j];
        return size_t{1} << bits;
    }

    size_t parts() const { return parts_; }
    size_t part(uint64_t id) const { return part_of(place_(id), parts_); }

    void locate(const uint64_t* ids, size_t count, Places& out) const {
        for (size_t i = 0; i < count; ++i) out.placements[i] = place_(ids[i]);
    }

    void fetch(Places& places, size_t i) const {
        const uint64_t placement = places.placements[i];
        const uint8_t* base = bases_[parts_ == 1 ? 0 : part_of(placement, parts_)];
        places.blocks[i] = base + block_of(placement, layout_.blocks) * block_bytes;
        __builtin_prefetch(places.blocks[i]);
    }

    size_t read(const Places& places, size_t i) const {
        return pattern(places.blocks[i], row_bits(places.placements[i], row_seed_));
    }

   private:
    uint32_t pattern(const uint8_t* block, uint64_t row_choice) const {
        switch (layout_.levels) {
            case 1: return read_pattern<1>(layout_, block, row_choice);
            case 2: return read_pattern<2>(layout_, block, row_choice);
            case 3: return read_pattern<3>(layout_, block, row_choice);
            default: return read_pattern<most_levels>(layout_, block, row_choice);
        }
    }

    BlockLayout layout_;
    Placement place_;
    uint64_t row_seed_, parts_;
    std::vector<const uint8_t*> bases_;  // where block 0 of the release would lie, for each part
};

// Only the table: every key that is not stored has the same answer.
class NoSource {
   public:
    struct Places {};

    static constexpr const char* one_value_for_each = "one value for keys that are not stored";

    NoSource(Placement place, uint64_t parts) : place_(place), parts_(parts) {
        require(parts >= 1, "there must be a table");
    }

    size_t answers() const { return 1; }
    size_t parts() const { return parts_; }
    size_t part(uint64_t id) const { return part_of(place_(id), parts_); }
    void locate(const uint64_t*, size_t, Places&) const {}
    void fetch(Places&, size_t) const {}
    size_t read(const Places&, size_t) const { return 0; }

   private:
    Placement place_;
    uint64_t parts_;
};

// A linear system in each part; it reads the bucket which the XOR of a key's slots falls into.
class SlotSource {
   public:
    struct Places {
        uint64_t slots[most_slots][most_of_group];
        const uint8_t* packed[most_of_group];
    };

    static constexpr const char* one_value_for_each = "one value for each bucket";

    SlotSource(Placement place, const std::vector<Span<const uint8_t>>& packed,
               const std::vector<Span<const uint64_t>>& seeds, size_t width, size_t slots, uint64_t segment,
               Span<const uint64_t> lasts)
        : place_(place),
          systems_(checked(packed, seeds, width, slots, segment)),
          width_(width),
          slots_(slots),
          answers_(lasts.size),
          buckets_(checked(lasts), lasts.size, static_cast<unsigned>(8 * width)) {}

    size_t answers() const { return answers_; }
    size_t parts() const { return systems_.size(); }
    size_t part(uint64_t id) const { return part_of(place_(id), systems_.size()); }

    void locate(const uint64_t* ids, size_t count, Places& out) const {
        if (systems_.size() == 1) {
            systems_[0].hash.of_many(ids, count, out.slots);
            std::fill(out.packed, out.packed + count, systems_[0].packed);
            return;
        }
        for (size_t i = 0; i < count; ++i) {
            const System& system = systems_[part(ids[i])];
            uint64_t slots[most_slots];
            system.hash(ids[i], slots);
            for (size_t j = 0; j < slots_; ++j) out.slots[j][i] = slots[j];
            out.packed[i] = system.packed;
        }
    }

    void fetch(const Places& places, size_t i) const {
        for (size_t j = 0; j < slots_; ++j) {
            const uint8_t* slot = places.packed[i] + places.slots[j][i] * width_;
            __builtin_prefetch(slot);
            if ((width_ & (width_ - 1)) != 0) __builtin_prefetch(slot + 7);
        }
    }

    // No more bytes than a slot has, if there is such a word: the next ones may be in a cache line that nobody fetched.
    size_t read(const Places& places, size_t i) const {
        switch (width_) {
            case 1: return read_as<uint8_t>(places, i);
            case 2: return read_as<uint16_t>(places, i);
            case 4: return read_as<uint32_t>(places, i);
            default: return read_as<uint64_t>(places, i);
        }
    }

   private:
    struct System {
        SlotHash hash;
        const uint8_t* packed;
    };

    template <typename Slot>
    size_t read_as(const Places& places, size_t i) const {
        Slot sum = 0;
        for (size_t j = 0; j < slots_; ++j) {
            Slot slot;
            std::memcpy(&slot, places.packed[i] + places.slots[j][i] * width_, sizeof slot);
            sum = static_cast<Slot>(sum ^ slot);
        }
        return buckets_(sum);
    }

    static std::vector<System> checked(const std::vector<Span<const uint8_t>>& packed,
                                       const std::vector<Span<const uint64_t>>& seeds, size_t width, size_t slots,
                                       uint64_t segment) {
        require(width >= 1 && width <= 8, "a slot has 1..8 bytes");
        require(!packed.empty() && packed.size() == seeds.size(), "one seed for each part");
        std::vector<System> systems;
        for (size_t part = 0; part < packed.size(); ++part) {
            require(seeds[part].size == 2, "a seed has two words");
            // Every slot is read as eight bytes, even the last one.
            require(packed[part].size == slots * segment * width + 8, "an array must hold the slots and eight bytes");
            systems.push_back({slot_hash({seeds[part][0], seeds[part][1]}, slots, segment), packed[part].data});
        }
        return systems;
    }

    static const uint64_t* checked(Span<const uint64_t> lasts) {
        require(lasts.size >= 1, "there must be a bucket");
        for (size_t i = 1; i < lasts.size; ++i) require(lasts[i - 1] < lasts[i], "buckets must ascend");
        return lasts.data;
    }

    Placement place_;
    std::vector<System> systems_;
    size_t width_, slots_, answers_;
    BucketIndex buckets_;
};

}  // namespace sparsedp
