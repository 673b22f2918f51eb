// The game behind balanced answers (sparsedp/structures/balancing.py): an opponent weighs the counts, and answers are
// weighted medians.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "arrays.hpp"
#include "lanes.hpp"

namespace sparsedp {

// What a round needs to know; all arrays but `cost` have an entry for each count.
struct Game {
    Matrix<const double> cost;  // of an error of one: a row for each count, a column for each pattern
    Span<const double> counts;  // ascending
    Span<const double> fixed;   // the cost of a count whatever the answers are
    Span<const double> base;    // weights that the opponent does not choose
    double spread;              // and their share
};

class BalancedAnswers {
   public:
    explicit BalancedAnswers(const Game& game)
        : game_(game), weights_(game.cost.rows), ratios_(game.cost.rows), answers_(game.cost.columns) {
        const size_t counts = game.cost.rows;
        require(counts > 0 && game.counts.size == counts && game.fixed.size == counts && game.base.size == counts,
                "a game has an entry for each count");
    }

    // Answers averaged over the rounds, one for each rate of learning, later ones with more weight. `start` has
    // the logarithms of the opponent's first weights.
    std::vector<double> play(Span<const double> start, Span<const double> rates) {
        require(start.size == game_.cost.rows && rates.size > 0, "a game starts with weights and has rounds");
        std::vector<double> learned(start.data, start.data + start.size);
        std::vector<double> total(answers_.size());
        double scale = 0;  // of the costs: that of the first round, so that those of all rounds can be added
        for (size_t played = 0; played < rates.size; ++played) {
            weigh(learned);
            round();
            if (played == 0) scale = mean_ratio();
            for (size_t c = 0; c < learned.size(); ++c) learned[c] += rates[played] * ratios_[c] / scale;
            const double weight = static_cast<double>(played + 1);
            for (size_t p = 0; p < total.size(); ++p) total[p] += weight * answers_[p];
        }
        const double rounds = static_cast<double>(rates.size);
        for (double& value : total) value /= rounds * (rounds + 1) / 2;
        return total;
    }

    // What the best answers cost if the opponent's weights are those that it does not choose.
    double least_cost() {
        std::copy(game_.base.data, game_.base.data + game_.base.size, weights_.begin());
        round();
        return mean_ratio();
    }

   private:
    void weigh(const std::vector<double>& learned) {
        const double largest = *std::max_element(learned.begin(), learned.end());
        double sum = 0;
        for (size_t c = 0; c < learned.size(); ++c) sum += weights_[c] = std::exp(learned[c] - largest);
        for (size_t c = 0; c < learned.size(); ++c)
            weights_[c] = (1 - game_.spread) * weights_[c] / sum + game_.spread * game_.base[c];
    }

    // The medians of a few patterns. Their sums are made twice, first to know half of them, which takes less than to
    // keep all of them in memory.
    template <size_t width>
    SPARSEDP_INLINE void answer(size_t pattern) {
        const size_t counts = weights_.size();
        double all[width] = {}, below[width] = {}, medians[width];
        for (size_t c = 0; c < counts; ++c) {
            const double* cost = game_.cost[c] + pattern;
            for (size_t p = 0; p < width; ++p) all[p] += weights_[c] * cost[p];
        }
        std::fill(medians, medians + width, game_.counts[0]);
        for (size_t c = 0; c + 1 < counts; ++c) {
            const double* cost = game_.cost[c] + pattern;
            const double next = game_.counts[c + 1];
            for (size_t p = 0; p < width; ++p) {
                below[p] += weights_[c] * cost[p];
                medians[p] = below[p] < 0.5 * all[p] ? next : medians[p];
            }
        }
        std::copy(medians, medians + width, answers_.data() + pattern);
    }

    // The cost of each count. Four sums, because the order of the additions of one could not be vectorised.
    SPARSEDP_INLINE void measure() {
        const size_t patterns = answers_.size();
        for (size_t c = 0; c < weights_.size(); ++c) {
            const double* cost = game_.cost[c];
            const double count = game_.counts[c];
            double sums[4] = {};
            size_t p = 0;
            for (; p + 4 <= patterns; p += 4)
                for (size_t lane = 0; lane < 4; ++lane)
                    sums[lane] += cost[p + lane] * std::abs(answers_[p + lane] - count);
            for (; p < patterns; ++p) sums[0] += cost[p] * std::abs(answers_[p] - count);
            ratios_[c] = (sums[0] + sums[1]) + (sums[2] + sums[3]) + game_.fixed[c];
        }
    }

    SPARSEDP_INLINE void answer_and_measure() {
        size_t pattern = 0;
        for (; pattern + 32 <= answers_.size(); pattern += 32) answer<32>(pattern);
        for (; pattern + 4 <= answers_.size(); pattern += 4) answer<4>(pattern);
        for (; pattern < answers_.size(); ++pattern) answer<1>(pattern);
        measure();
    }

    // The same, to the last bit, in wider vectors where the processor has them: AVX2 alone does not fuse products and
    // sums.
#ifdef __x86_64__
    __attribute__((target("avx2"))) void wide_round() { answer_and_measure(); }
#endif
    void plain_round() { answer_and_measure(); }

    void round() {
#ifdef __x86_64__
        if (widest_lanes() >= 4) {
            wide_round();
            return;
        }
#endif
        plain_round();
    }

    double mean_ratio() const {
        double sum = 0;
        for (size_t c = 0; c < weights_.size(); ++c) sum += weights_[c] * ratios_[c];
        return sum;
    }

    Game game_;
    std::vector<double> weights_, ratios_, answers_;
};

}  // namespace sparsedp
