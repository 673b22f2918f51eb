// Bindings of what is drawn from random words.
#include "bindings.hpp"
#include "buckets.hpp"
#include "flips.hpp"
#include "noise.hpp"
#include "uniform.hpp"

namespace sparsedp::bindings {
namespace {

Out<uint64_t> geometric(In<uint64_t> words, In<uint64_t> thresholds) {
    return map<uint64_t>(GeometricDraws(span(words), span(thresholds)));
}

Out<int64_t> two_sided(In<uint64_t> words, uint64_t zero, In<uint64_t> thresholds) {
    return map<int64_t>(TwoSidedDraws(span(words), zero, span(thresholds)));
}

Out<uint64_t> uniform_below(In<uint64_t> bounds, In<uint64_t> words) {
    return map<uint64_t>(UniformsBelow(span(bounds), span(words)));
}

Out<int64_t> cut_words(In<uint64_t> words, In<uint64_t> lasts, unsigned bits) {
    return map<int64_t>(CutWords(span(words), span(lasts), bits));
}

Out<uint64_t> words_of_buckets(In<int64_t> buckets, In<uint64_t> lasts, In<uint64_t> words) {
    return map<uint64_t>(WordsOfBuckets(span(buckets), span(lasts), span(words)));
}

void flip(InOut<uint64_t> array, In<uint64_t> words, uint64_t numerator, unsigned digits) {
    Unlocked unlocked;
    sparsedp::flip(span(array), span(words), numerator, digits);
}

}  // namespace

void register_noise(nb::module_& m) {
    m.def("geometric", &geometric, nb::arg("words"), nb::arg("thresholds"));
    m.def("two_sided", &two_sided, nb::arg("words"), nb::arg("zero"), nb::arg("thresholds"));
    m.def("uniform_below", &uniform_below, nb::arg("bounds"), nb::arg("words"));
    m.def("cut_words", &cut_words, nb::arg("words"), nb::arg("lasts"), nb::arg("bits"));
    m.def("words_of_buckets", &words_of_buckets, nb::arg("buckets"), nb::arg("lasts"), nb::arg("words"));
    m.def("flip", &flip, nb::arg("array"), nb::arg("words"), nb::arg("numerator"), nb::arg("digits"));
}

}  // namespace sparsedp::bindings
