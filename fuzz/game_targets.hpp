// The game of balanced answers, one round of it against medians taken one by one.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "balancing.hpp"
#include "checking.hpp"

namespace sparsedp::fuzz {

inline void try_game(const std::vector<uint64_t>& words, size_t counts, size_t rounds) {
    counts = 1 + counts % 20;
    const size_t patterns = words.size() / counts;
    std::vector<double> cost(counts * patterns), values(counts), fixed(counts, 0.25), start(counts, -1);
    const std::vector<double> base(counts, 1 / static_cast<double>(counts));
    for (size_t i = 0; i < cost.size(); ++i) cost[i] = static_cast<double>(words[i] % 1000 + 1) / 1000;
    for (size_t c = 0; c < counts; ++c) values[c] = static_cast<double>(3 * c);
    const Game game{{cost.data(), counts, patterns}, span(values), span(fixed), span(base), 0.5};
    const std::vector<double> rates(1 + rounds % 9, 0.8);
    for (double answer : BalancedAnswers(game).play(span(start), span(rates)))
        check(answer >= 0 && answer <= values.back(), "an answer is no mean of counts");
    const std::vector<double> first = BalancedAnswers(game).play(span(start), {rates.data(), 1});
    for (size_t p = 0; p < patterns; ++p) {
        double below = 0, above = 0, all = 0;  // weights are equal in the first round
        for (size_t c = 0; c < counts; ++c) {
            const double weight = cost[c * patterns + p];
            all += weight;
            if (values[c] < first[p]) below += weight;
            if (values[c] > first[p]) above += weight;
        }
        check(std::max(below, above) <= 0.5 * all + 1e-9, "an answer is no median");
    }
    double cost_of_first = 0.25;
    for (size_t c = 0; c < counts; ++c)
        for (size_t p = 0; p < patterns; ++p)
            cost_of_first += cost[c * patterns + p] * std::abs(first[p] - values[c]) / static_cast<double>(counts);
    check(std::abs(BalancedAnswers(game).least_cost() / cost_of_first - 1) < 1e-9,
          "the best answers cost something else");
    start.pop_back();
    check(!is_taken([&] { BalancedAnswers(game).play(span(start), span(rates)); }),
          "a start for too few counts is taken");
}

}  // namespace sparsedp::fuzz
