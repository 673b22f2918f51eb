// Bindings of the retrieval system.
#include "bindings.hpp"
#include "solving.hpp"

namespace sparsedp::bindings {
namespace {

Out<uint64_t> slots_of(uint64_t k0, uint64_t k1, size_t slots, uint64_t segment, In<uint64_t> ids) {
    const SlotHash hash = slot_hash({k0, k1}, slots, segment);
    auto out = uninitialised<uint64_t>(ids.size() * slots);
    sparsedp::slots_of(hash, span(ids), out.get());
    return own(std::move(out), ids.size() * slots);
}

bool solve(InOut<uint8_t> z, size_t width, uint64_t k0, uint64_t k1, size_t slots, uint64_t segment, In<uint64_t> ids,
           In<uint64_t> values) {
    Unlocked unlocked;
    return sparsedp::solve(slot_hash({k0, k1}, slots, segment), width, span(ids), span(values), span(z));
}

}  // namespace

void register_retrieval(nb::module_& m) {
    m.def("slots_of", &slots_of, nb::arg("k0"), nb::arg("k1"), nb::arg("slots"), nb::arg("segment"), nb::arg("ids"));
    m.def("solve", &solve, nb::arg("z"), nb::arg("width"), nb::arg("k0"), nb::arg("k1"), nb::arg("slots"),
          nb::arg("segment"), nb::arg("ids"), nb::arg("values"));
}

}  // namespace sparsedp::bindings
