// What readers have besides tables: noisy symbols in blocks, slots of linear systems, or nothing.
#pragma once
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

// Noisy symbols in cache-line blocks; the pattern of a key's symbols has a value in a table of all patterns.
class BlockSource {
   public:
    struct Place {
        uint64_t placement;
        const uint8_t* block;
        size_t part;
    };

    BlockSource(const BlockLayout& layout, Placement place, uint64_t row_seed,
                const std::vector<Span<const uint64_t>>& parts, Span<const double> values)
        : layout_(layout), place_(place), row_seed_(row_seed), parts_(parts.size()), values_(values.data) {
        require(parts_ >= 1 && layout.blocks % parts_ == 0, "every part must have equally many blocks");
        uint32_t bits = 0;
        for (size_t j = 0; j < layout.levels; ++j) bits += layout.bits[j];
        require(values.size == size_t{1} << bits, "one value for each pattern");
        const uint64_t each = layout.blocks / parts_;
        for (size_t part = 0; part < parts_; ++part) {
            require(holds_blocks(parts[part], each), "an array must hold its blocks");
            bases_.push_back(reinterpret_cast<const uint8_t*>(parts[part].data) - part * each * block_bytes);
        }
    }

    size_t parts() const { return parts_; }
    Place locate(uint64_t id) const {
        const uint64_t placement = place_(id);
        const size_t part = part_of(placement, parts_);
        const uint8_t* block = bases_[part] + block_of(placement, layout_.blocks) * block_bytes;
        __builtin_prefetch(block);
        return {placement, block, part};
    }
    size_t part(const Place& at) const { return at.part; }
    double read(const Place& at) const {
        return values_[read_pattern(layout_, at.block, row_bits(at.placement, row_seed_))];
    }

   private:
    BlockLayout layout_;
    Placement place_;
    uint64_t row_seed_, parts_;
    std::vector<const uint8_t*> bases_;  // where block 0 of the release would lie, for each part
    const double* values_;
};

// Only the table: every key that is not stored has the same answer.
class NoSource {
   public:
    struct Place {
        size_t part;
    };

    NoSource(Placement place, uint64_t parts, double answer) : place_(place), parts_(parts), answer_(answer) {
        require(parts >= 1, "there must be a table");
    }

    size_t parts() const { return parts_; }
    Place locate(uint64_t id) const { return {parts_ == 1 ? 0 : part_of(place_(id), parts_)}; }
    size_t part(const Place& at) const { return at.part; }
    double read(const Place&) const { return answer_; }

   private:
    Placement place_;
    uint64_t parts_;
    double answer_;
};

// A linear system in each part; the XOR of a key's slots falls into a bucket that has a value.
class SlotSource {
   public:
    struct Place {
        size_t part;
        uint64_t at[most_slots];
    };

    SlotSource(Placement place, const std::vector<Span<const uint8_t>>& packed,
               const std::vector<Span<const uint64_t>>& seeds, size_t width, size_t slots, uint64_t segment,
               Span<const uint64_t> lasts, Span<const double> values)
        : place_(place),
          systems_(checked(packed, seeds, width, slots, segment)),
          width_(width),
          slots_(slots),
          buckets_(checked(lasts, values), lasts.size, static_cast<unsigned>(8 * width)),
          values_(values.data) {}

    size_t parts() const { return systems_.size(); }
    Place locate(uint64_t id) const {
        Place found;
        found.part = systems_.size() == 1 ? 0 : part_of(place_(id), systems_.size());
        const System& system = systems_[found.part];
        system.hash(id, found.at);
        for (size_t j = 0; j < slots_; ++j) __builtin_prefetch(system.packed + found.at[j] * width_);
        return found;
    }
    size_t part(const Place& found) const { return found.part; }
    double read(const Place& found) const {
        const uint8_t* packed = systems_[found.part].packed;
        uint64_t sum = 0;
        for (size_t j = 0; j < slots_; ++j) {
            uint64_t word;
            std::memcpy(&word, packed + found.at[j] * width_, 8);
            sum ^= word;
        }
        return values_[buckets_(sum)];
    }

   private:
    struct System {
        SlotHash hash;
        const uint8_t* packed;
    };

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

    static const uint64_t* checked(Span<const uint64_t> lasts, Span<const double> values) {
        require(lasts.size >= 1 && lasts.size == values.size, "one value for each bucket");
        for (size_t i = 1; i < lasts.size; ++i) require(lasts[i - 1] < lasts[i], "buckets must ascend");
        return lasts.data;
    }

    Placement place_;
    std::vector<System> systems_;
    size_t width_, slots_;
    BucketIndex buckets_;
    const double* values_;
};

}  // namespace sparsedp
