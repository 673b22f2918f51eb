// Bindings of random rounding.
#include "bindings.hpp"
#include "rounding.hpp"

namespace sparsedp::bindings {
namespace {

Out<uint64_t> unary_heights(In<uint64_t> counts, uint64_t cap, uint64_t slope_whole, uint64_t slope_fraction,
                            uint64_t levels, In<uint64_t> words) {
    return map<uint64_t>(UnaryHeights(span(counts), cap, slope_whole, slope_fraction, levels, span(words)));
}

// If the cells of a value do not fit in 63 bits, returns the position of the first such value instead of an array.
nb::object round_to_grid(In<double> values, uint64_t numerator, uint64_t denominator, In<uint64_t> words) {
    const size_t length = values.size();
    auto out = uninitialised<int64_t>(length);
    size_t rounded;
    {
        Unlocked unlocked;
        rounded = sparsedp::round_to_grid(span(values), numerator, denominator, span(words), out.get());
    }
    if (rounded != length) return nb::int_(rounded);
    return nb::cast(own(std::move(out), length));
}

Out<int64_t> round_sums(In<double> values, In<int64_t> starts, uint64_t numerator, uint64_t denominator,
                        In<uint64_t> words, int64_t limit) {
    return map<int64_t>(RoundedSums(span(values), span(starts), numerator, denominator, span(words), limit));
}

Out<uint64_t> fractions(In<uint64_t> parts, uint64_t step) { return map<uint64_t>(Fractions(span(parts), step)); }

}  // namespace

void register_rounding(nb::module_& m) {
    m.def("unary_heights", &unary_heights, nb::arg("counts"), nb::arg("cap"), nb::arg("slope_whole"),
          nb::arg("slope_fraction"), nb::arg("levels"), nb::arg("words"));
    m.def("round_to_grid", &round_to_grid, nb::arg("values"), nb::arg("numerator"), nb::arg("denominator"),
          nb::arg("words"));
    m.def("round_sums", &round_sums, nb::arg("values"), nb::arg("starts"), nb::arg("numerator"), nb::arg("denominator"),
          nb::arg("words"), nb::arg("limit"));
    m.def("fractions", &fractions, nb::arg("parts"), nb::arg("step"));
}

}  // namespace sparsedp::bindings
