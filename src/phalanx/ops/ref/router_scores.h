#pragma once
// The scores of a token's experts, as the reference computes them.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "phalanx/ops/router_rule.h"

namespace phalanx::ref {

inline double sigmoid(double z) { return 1.0 / (1.0 + std::exp(-z)); }
inline double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))); }

// The score of one logit, and its derivative. Not of a softmax, which depends on all of them.
inline double score_of(ops::RouterScore score, double z) {
  return score == ops::RouterScore::kSigmoid ? sigmoid(z) : std::sqrt(softplus(z));
}
inline double score_slope(ops::RouterScore score, double z) {
  if (score == ops::RouterScore::kSigmoid) return sigmoid(z) * sigmoid(-z);
  const double s = score_of(score, z);
  return s == 0.0 ? 0.0 : sigmoid(z) / (2.0 * s);
}

inline double log_sum_exp(const std::vector<double>& z) {
  const double largest = *std::ranges::max_element(z);
  double sum = 0.0;
  for (const double value : z) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

inline std::vector<double> softmax(const std::vector<double>& z) {
  const double log_sum = log_sum_exp(z);
  std::vector<double> s(z.size());
  std::ranges::transform(z, s.begin(), [=](double value) { return std::exp(value - log_sum); });
  return s;
}

// The scores of all experts.
inline std::vector<double> scores_of(ops::RouterScore score, const std::vector<double>& z) {
  if (ops::is_softmax(score)) return softmax(z);
  std::vector<double> s(z.size());
  std::ranges::transform(z, s.begin(), [=](double value) { return score_of(score, value); });
  return s;
}

// s / (sum + 1e-20).
inline std::vector<double> normalised(std::vector<double> s) {
  const double sum = std::accumulate(s.begin(), s.end(), ops::kScoreEpsilon);
  for (double& value : s) value /= sum;
  return s;
}
// The scores of which balancing losses are computed.
inline std::vector<double> balance_scores(ops::RouterScore score, const std::vector<double>& z) {
  const std::vector<double> s = scores_of(score, z);
  return ops::is_softmax(score) ? s : normalised(s);
}

// The derivative by the logits of sum(weights * s), s the softmax of the logits.
inline std::vector<double> softmax_gradient(const std::vector<double>& s,
                                            const std::vector<double>& weights) {
  const double mean = std::inner_product(s.begin(), s.end(), weights.begin(), 0.0);
  std::vector<double> dz(s.size());
  for (std::size_t i = 0; i < s.size(); ++i) dz[i] = s[i] * (weights[i] - mean);
  return dz;
}
// The same of sum(weights * normalised(s)), s the scores of each logit.
inline std::vector<double> normalised_gradient(ops::RouterScore score, const std::vector<double>& z,
                                               const std::vector<double>& weights) {
  const std::vector<double> s = scores_of(score, z);
  const double sum = std::accumulate(s.begin(), s.end(), ops::kScoreEpsilon);
  const double mean = std::inner_product(s.begin(), s.end(), weights.begin(), 0.0) / sum;
  std::vector<double> dz(s.size());
  for (std::size_t i = 0; i < s.size(); ++i) {
    dz[i] = (weights[i] - mean) / sum * score_slope(score, z[i]);
  }
  return dz;
}

// The places of the largest values, the largest first; of equal ones the lower.
inline std::vector<std::int64_t> places_of_largest(const std::vector<double>& values,
                                                   std::int64_t count) {
  std::vector<std::int64_t> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, std::greater<>(),
                           [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
  places.resize(static_cast<std::size_t>(count));
  return places;
}

}  // namespace phalanx::ref
