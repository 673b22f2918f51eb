// Bindings of sorting and summing pairs.
#include "bindings.hpp"
#include "blocks.hpp"
#include "sorting.hpp"

using namespace sparsedp;

using InOutSigned = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename IdAt>
static nb::object new_sorted_pairs(IdAt id_at, In<int64_t> values) {
    const size_t count = values.size();
    auto out_ids = uninitialised<uint64_t>(count);
    auto out_values = uninitialised<int64_t>(count);
    {
        Unlocked unlocked;
        sort_pairs(id_at, values.data(), count, out_ids.get(), out_values.get());
    }
    return nb::make_tuple(own(std::move(out_ids), count), own(std::move(out_values), count));
}

// New arrays: ids ascending, and the values that belong to them.
static nb::object sorted_pairs(In<uint64_t> ids, In<int64_t> values) {
    require(ids.size() == values.size(), "one value for each id");
    const uint64_t* x = ids.data();
    return new_sorted_pairs([=](size_t i) { return x[i]; }, values);
}

// The same for the placements of integer keys, which are never in memory unsorted.
static nb::object placed_pairs(In<uint64_t> ids, In<int64_t> values, uint64_t seed0, uint64_t seed1) {
    require(ids.size() == values.size(), "one value for each id");
    const uint64_t* x = ids.data();
    const Placement place{false, seed0, seed1};
    return new_sorted_pairs([=](size_t i) { return place(x[i]); }, values);
}

static size_t summed_runs(InOut ids, InOutSigned values, int64_t limit) {
    require(ids.size() == values.size(), "one value for each id");
    require(limit >= 0, "a limit is not negative");
    Unlocked unlocked;
    return sum_runs(ids.data(), values.data(), ids.size(), limit);
}

static size_t cut(InOut ids, InOutSigned values, int64_t limit) {
    require(ids.size() == values.size(), "one value for each id");
    require(limit >= 0, "a limit is not negative");
    Unlocked unlocked;
    return cut_pairs(ids.data(), values.data(), ids.size(), limit);
}

void register_sorting(nb::module_& m) {
    m.def("sort_pairs", &sorted_pairs, nb::arg("ids"), nb::arg("values"));
    m.def("place_pairs", &placed_pairs, nb::arg("ids"), nb::arg("values"), nb::arg("seed0"), nb::arg("seed1"));
    m.def("sum_runs", &summed_runs, nb::arg("ids"), nb::arg("values"), nb::arg("limit"));
    m.def("cut_pairs", &cut, nb::arg("ids"), nb::arg("values"), nb::arg("limit"));
}
