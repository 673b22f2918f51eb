// The kernels of native/ against plain versions of the same, under libFuzzer: `make fuzz-native` (needs clang).
// The first byte of an input chooses the kernel, the rest is its data. A difference or a memory error ends the run.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include "arrow_targets.hpp"
#include "block_targets.hpp"
#include "buckets.hpp"
#include "checking.hpp"
#include "composite_targets.hpp"
#include "drawing_targets.hpp"
#include "embedding.hpp"
#include "game_targets.hpp"
#include "key_targets.hpp"
#include "lane_targets.hpp"
#include "retrieval.hpp"
#include "solving.hpp"
#include "sorting.hpp"
#include "table.hpp"

namespace sparsedp::fuzz {
namespace {

void try_table(std::vector<uint64_t> ids, bool sorted) {
    if (sorted) {
        std::sort(ids.begin(), ids.end());
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    }
    bool ascends = true;
    for (size_t i = 1; i < ids.size(); ++i) ascends &= ids[i - 1] < ids[i];
    std::vector<int64_t> values(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) values[i] = static_cast<int64_t>(i) - 7;
    try {
        const TableIndex index(span(ids), span(values));
        check(ascends, "a table in disorder was taken");
        std::vector<uint64_t> asked = {0, UINT64_MAX};
        for (uint64_t id : ids) asked.insert(asked.end(), {id, id - 1, id + 1, ~id});
        for (uint64_t id : asked) {
            const auto at = std::lower_bound(ids.begin(), ids.end(), id);
            const bool there = at != ids.end() && *at == id;
            check(index.find(id) == (there ? at - ids.begin() : -1), "a table finds what is not there, or not what is");
        }
    } catch (const std::invalid_argument&) {
        check(!ascends, "a table in order was refused");
    }
}

void try_estimator(const std::vector<uint64_t>& bits, size_t levels) {
    levels = std::min(levels, 64 * bits.size());
    std::vector<uint64_t> exact(bits.data(), bits.data() + (levels + 63) / 64);
    exact.push_back(0);  // the last, partial word may be none
    MaximiserAverage plain;
    for (size_t level = 0; level < levels; ++level) plain.step(exact[level / 64] >> (level % 64) & 1);
    check(estimate_words(exact.data(), levels) == plain.value(), "words are estimated unlike their bits");
}

void try_buckets(std::vector<uint64_t> lasts, uint64_t number, unsigned bytes) {
    const unsigned bits = 8 * (1 + bytes % 8);
    const uint64_t largest = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
    for (uint64_t& last : lasts) last &= largest;
    lasts.push_back(largest);
    std::sort(lasts.begin(), lasts.end());
    lasts.erase(std::unique(lasts.begin(), lasts.end()), lasts.end());
    const BucketIndex index(lasts.data(), lasts.size(), bits);
    for (uint64_t near : {number, number - 1, number + 1, lasts[number % lasts.size()]}) {
        const auto at = std::lower_bound(lasts.begin(), lasts.end(), near & largest);
        check(index(near) == static_cast<size_t>(at - lasts.begin()), "a number falls into the wrong bucket");
    }
}

void try_sorting(const std::vector<uint64_t>& ids, uint64_t limit) {
    const size_t count = ids.size();
    std::vector<int64_t> values(count), out_values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<int64_t>(ids[i] * 0x9e3779b97f4a7c15ULL);
    std::vector<uint64_t> out_ids(count);
    sort_pairs(span(ids), span(values), [](uint64_t id) { return id; }, out_ids.data(), out_values.data());
    check(std::is_sorted(out_ids.begin(), out_ids.end()), "sorted ids are in disorder");
    std::map<uint64_t, __int128> sums;
    for (size_t i = 0; i < count; ++i) sums[ids[i]] += values[i];
    const int64_t most = static_cast<int64_t>(limit >> 3);
    const size_t left = sum_runs({out_ids.data(), count}, {out_values.data(), count}, most);
    check(left == sums.size(), "sums of the wrong number of ids");
    size_t at = 0;
    for (const auto& [id, sum] : sums) {
        check(out_ids[at] == id && out_values[at] == static_cast<int64_t>(std::clamp<__int128>(sum, -most, most)),
              "a wrong sum");
        ++at;
    }
}

void try_system(const std::vector<uint64_t>& input, unsigned slots, uint64_t segment) {
    std::vector<uint64_t> ids(input);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    slots = 2 + slots % 7;
    segment = 1 + segment % 200;
    if (ids.size() > slots * segment) return;
    const SlotHash hash{{17, 42}, slots, static_cast<uint32_t>(segment)};
    std::vector<uint64_t> values(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) values[i] = (ids[i] * 0x2545f4914f6cdd1dULL) & 0xffff;
    std::vector<uint8_t> packed(slots * segment * 2, 0x5a);
    if (!SparseSystem(hash, span(ids)).solve(2, span(values), {packed.data(), packed.size()})) return;
    for (size_t i = 0; i < ids.size(); ++i) {
        uint64_t at[most_slots];
        hash(ids[i], at);
        uint16_t sum = 0;
        for (size_t j = 0; j < slots; ++j) {
            uint16_t slot;
            std::memcpy(&slot, packed.data() + 2 * at[j], 2);
            sum = static_cast<uint16_t>(sum ^ slot);
        }
        check(sum == values[i], "a solution does not solve its equations");
    }
}

// One key after the other, in buffers that end where they should.
void try_keys(unsigned kind, uint64_t first, uint64_t second, const Bytes& rest) {
    const SipKey key{second, ~second * 0x9e3779b97f4a7c15ULL};
    const bool likely = first & 1;
    const size_t size = rest.size(), split = (first >> 1 & 0xffff) % (size + 1);
    const Bytes head(rest.data(), rest.data() + split), tail(rest.data() + split, rest.data() + size);
    const size_t width = first >> 1 & 15;
    switch (kind) {
        case 0:
            try_integer(key, first);
            try_wide_integers(key, elements<int64_t>(rest));
            break;
        case 1: {
            std::vector<uint32_t> letters = elements<uint32_t>(rest);
            if (likely && width > 0) letters.resize(letters.size() / width * width);
            try_fixed_text(key, letters, width);
            break;
        }
        case 2: {
            Bytes data(rest);
            if (likely && width > 0) data.resize(data.size() / width * width);
            try_fixed_bytes(key, data, width);
            break;
        }
        case 3: try_offsets(key, elements<int32_t>(head), tail, likely); break;
        case 4: try_offsets(key, elements<int64_t>(head), tail, likely); break;
        case 5: try_views(key, head, {tail, Bytes(40, 7)}, likely); break;
        default: try_composite(key, first >> 17, elements<int64_t>(head), tail, likely);
    }
}

}  // namespace
}  // namespace sparsedp::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace sparsedp::fuzz;
    if (size < 18) return 0;
    uint64_t first, second;
    std::memcpy(&first, data + 1, 8);
    std::memcpy(&second, data + 9, 8);
    const Bytes rest(data + 17, data + size);
    const std::vector<uint64_t> words = elements<uint64_t>(rest);
    switch (data[0] % 24) {
        case 0: try_table(words, false); break;
        case 1: try_table(words, true); break;
        case 2: try_estimator(words, first % 4096); break;
        case 3: try_buckets(words, first, static_cast<unsigned>(second)); break;
        case 4: try_sorting(words, first); break;
        case 5: try_system(words, static_cast<unsigned>(first), second); break;
        case 6: try_cells(first, second); break;
        case 7: try_blocks(words, first, 1); break;
        case 8: try_blocks(words, first, 1 + second % 4); break;
        case 9: try_flips(words, first, static_cast<unsigned>(second)); break;
        case 10: try_noise(words, first); break;
        case 11: try_uniform(words, first); break;
        case 12: try_rounding(words, first, second); break;
        case 19: try_game(words, first, second); break;
        case 20: try_cuts(words, first, static_cast<unsigned>(second)); break;
        case 21: try_keys(6, first, second, rest); break;
        case 22: try_lanes(first, words, rest); break;
        case 23: {
            const size_t half = rest.size() / 2;
            const Bytes head(rest.data(), rest.data() + half), tail(rest.data() + half, rest.data() + rest.size());
            try_arrow({first, second}, second, elements<int32_t>(head), tail, words);
            try_exported(words, first & 1);
            break;
        }
        default: try_keys(data[0] % 24 - 13U, first, second, rest);
    }
    return 0;
}
