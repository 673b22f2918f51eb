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

// A system and the ids that it refers to.
class SparseSystem {
   public:
    SparseSystem(uint64_t k0, uint64_t k1, size_t slots, uint64_t segment, In<uint64_t> ids)
        : ids_(ids), system_(peeled(slot_hash({k0, k1}, slots, segment), span(ids))) {}

    bool solve(InOut<uint8_t> z, size_t width, In<uint64_t> values) const {
        Unlocked unlocked;
        return system_->solve(width, span(values), span(z));
    }

   private:
    static std::unique_ptr<const sparsedp::SparseSystem> peeled(const SlotHash& hash, Span<const uint64_t> ids) {
        Unlocked unlocked;
        return std::make_unique<const sparsedp::SparseSystem>(hash, ids);
    }

    In<uint64_t> ids_;
    std::unique_ptr<const sparsedp::SparseSystem> system_;
};

}  // namespace

void register_retrieval(nb::module_& m) {
    m.def("slots_of", &slots_of, nb::arg("k0"), nb::arg("k1"), nb::arg("slots"), nb::arg("segment"), nb::arg("ids"));
    nb::class_<SparseSystem>(m, "SparseSystem")
        .def(nb::init<uint64_t, uint64_t, size_t, uint64_t, In<uint64_t>>(), nb::arg("k0"), nb::arg("k1"),
             nb::arg("slots"), nb::arg("segment"), nb::arg("ids"))
        .def("solve", &SparseSystem::solve, nb::arg("z"), nb::arg("width"), nb::arg("values"));
}

}  // namespace sparsedp::bindings
