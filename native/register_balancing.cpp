// Bindings of the game behind balanced answers.
#include <algorithm>

#include "balancing.hpp"
#include "bindings.hpp"

namespace sparsedp::bindings {
namespace {

Out<double> balanced(InMatrix<double> cost, In<double> counts, In<double> fixed, In<double> base, double spread,
                     In<double> start, In<double> rates) {
    auto out = uninitialised<double>(cost.shape(1));
    {
        Unlocked unlocked;
        BalancedAnswers answers({matrix(cost), span(counts), span(fixed), span(base), spread});
        const std::vector<double> played = answers.play(span(start), span(rates));
        std::copy(played.begin(), played.end(), out.get());
    }
    return own(std::move(out), cost.shape(1));
}

double least_cost(InMatrix<double> cost, In<double> counts, In<double> fixed, In<double> weights) {
    Unlocked unlocked;
    return BalancedAnswers({matrix(cost), span(counts), span(fixed), span(weights), 1.0}).least_cost();
}

}  // namespace

void register_balancing(nb::module_& m) {
    m.def("balanced", &balanced, nb::arg("cost"), nb::arg("counts"), nb::arg("fixed"), nb::arg("base"),
          nb::arg("spread"), nb::arg("start"), nb::arg("rates"));
    m.def("least_cost", &least_cost, nb::arg("cost"), nb::arg("counts"), nb::arg("fixed"), nb::arg("weights"));
}

}  // namespace sparsedp::bindings
