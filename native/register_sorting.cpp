// Bindings of sorting and summing pairs.
#include "bindings.hpp"
#include "sorting.hpp"

using namespace sparsedp;

using InOutSigned = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// New arrays: ids ascending, and the values that belong to them.
static nb::object sorted_pairs(In<uint64_t> ids, In<int64_t> values) {
    require(ids.size() == values.size(), "one value for each id");
    const size_t count = ids.size();
    auto out_ids = uninitialised<uint64_t>(count);
    auto out_values = uninitialised<int64_t>(count);
    {
        nb::gil_scoped_release unlocked;
        sort_pairs(ids.data(), values.data(), count, out_ids.get(), out_values.get());
    }
    return nb::make_tuple(own(std::move(out_ids), count), own(std::move(out_values), count));
}

static size_t summed_runs(InOut ids, InOutSigned values, int64_t limit) {
    require(ids.size() == values.size(), "one value for each id");
    require(limit >= 0, "a limit is not negative");
    nb::gil_scoped_release unlocked;
    return sum_runs(ids.data(), values.data(), ids.size(), limit);
}

static size_t cut(InOut ids, InOutSigned values, int64_t limit) {
    require(ids.size() == values.size(), "one value for each id");
    require(limit >= 0, "a limit is not negative");
    nb::gil_scoped_release unlocked;
    return cut_pairs(ids.data(), values.data(), ids.size(), limit);
}

void register_sorting(nb::module_& m) {
    m.def("sort_pairs", &sorted_pairs, nb::arg("ids"), nb::arg("values"));
    m.def("sum_runs", &summed_runs, nb::arg("ids"), nb::arg("values"), nb::arg("limit"));
    m.def("cut_pairs", &cut, nb::arg("ids"), nb::arg("values"), nb::arg("limit"));
}
