// Bindings of sorting and summing pairs.
#include "bindings.hpp"
#include "blocks.hpp"
#include "sorting.hpp"

namespace sparsedp::bindings {
namespace {

template <typename NewId>
nb::object new_sorted_pairs(const In<uint64_t>& ids, const In<int64_t>& values, NewId new_id) {
    const size_t count = values.size();
    auto out_ids = uninitialised<uint64_t>(count);
    auto out_values = uninitialised<int64_t>(count);
    {
        Unlocked unlocked;
        sparsedp::sort_pairs(span(ids), span(values), new_id, out_ids.get(), out_values.get());
    }
    return nb::make_tuple(own(std::move(out_ids), count), own(std::move(out_values), count));
}

// New arrays: ids ascending, and the values that belong to them.
nb::object sort_pairs(In<uint64_t> ids, In<int64_t> values) {
    return new_sorted_pairs(ids, values, [](uint64_t id) { return id; });
}

// The same for the placements of integer keys.
nb::object place_pairs(In<uint64_t> ids, In<int64_t> values, uint64_t seed0, uint64_t seed1) {
    return new_sorted_pairs(ids, values, Placement{false, seed0, seed1});
}

size_t sum_runs(InOut<uint64_t> ids, InOut<int64_t> values, int64_t limit) {
    Unlocked unlocked;
    return sparsedp::sum_runs(span(ids), span(values), limit);
}

size_t cut_pairs(InOut<uint64_t> ids, InOut<int64_t> values, int64_t limit) {
    Unlocked unlocked;
    return sparsedp::cut_pairs(span(ids), span(values), limit);
}

}  // namespace

void register_sorting(nb::module_& m) {
    m.def("sort_pairs", &sort_pairs, nb::arg("ids"), nb::arg("values"));
    m.def("place_pairs", &place_pairs, nb::arg("ids"), nb::arg("values"), nb::arg("seed0"), nb::arg("seed1"));
    m.def("sum_runs", &sum_runs, nb::arg("ids"), nb::arg("values"), nb::arg("limit"));
    m.def("cut_pairs", &cut_pairs, nb::arg("ids"), nb::arg("values"), nb::arg("limit"));
}

}  // namespace sparsedp::bindings
