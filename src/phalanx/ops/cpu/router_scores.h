#pragma once
// The scores of a token's experts, in double: logits are few beside the experts' products, and the
// choice is the reference's.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "phalanx/ops/router_rule.h"

namespace phalanx::cpu {

// A number for every expert of a token.
using ExpertNumbers = std::array<double, ops::kMostExperts>;

inline double sigmoid(double z) { return 1.0 / (1.0 + std::exp(-z)); }

// Of one logit; not of a softmax.
inline double score_of(ops::RouterScore score, double z) {
  if (score == ops::RouterScore::kSigmoid) return sigmoid(z);
  return std::sqrt(std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))));
}

// The derivative of the score `s` of a logit.
inline double score_slope(ops::RouterScore score, double z, double s) {
  if (score == ops::RouterScore::kSigmoid) return s * sigmoid(-z);
  return s == 0.0 ? 0.0 : sigmoid(z) / (2.0 * s);
}

// s = softmax of `count` logits. Returns the logarithm of the sum of their exponentials.
template <typename T>
double softmax(const T* z, std::int64_t count, double* s) {
  const double largest = *std::max_element(z, z + count);
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    s[i] = std::exp(static_cast<double>(z[i]) - largest);
    sum += s[i];
  }
  for (std::int64_t i = 0; i < count; ++i) s[i] /= sum;
  return largest + std::log(sum);
}

// s = the scores of `count` logits; returns what their sum is normalised by.
template <typename T>
double scores_of(ops::RouterScore score, const T* z, std::int64_t count, double* s) {
  double sum = ops::kScoreEpsilon;
  for (std::int64_t i = 0; i < count; ++i) {
    s[i] = score_of(score, z[i]);
    sum += s[i];
  }
  return sum;
}

// Those with the largest values of what is added in the order of their numbers; of equal ones the
// lower number stays. Values that are not numbers come last.
class Largest {
 public:
  explicit Largest(std::int64_t most) : most_(most) {}

  void add(double value, std::int64_t number) {
    if (std::isnan(value)) value = -std::numeric_limits<double>::infinity();
    if (count_ == most_) {
      if (most_ == 0 || !(value > at(count_ - 1).value)) return;
    } else {
      ++count_;
    }
    std::int64_t place = count_ - 1;
    for (; place > 0 && value > at(place - 1).value; --place) at(place) = at(place - 1);
    at(place) = {value, static_cast<std::int32_t>(number)};
  }

  std::int64_t count() const { return count_; }
  std::int32_t number(std::int64_t place) const { return at(place).number; }
  double sum() const {
    double sum = 0.0;
    for (std::int64_t place = 0; place < count_; ++place) sum += at(place).value;
    return sum;
  }

 private:
  struct Entry {
    double value;
    std::int32_t number;
  };
  Entry& at(std::int64_t place) { return entries_[static_cast<std::size_t>(place)]; }
  const Entry& at(std::int64_t place) const { return entries_[static_cast<std::size_t>(place)]; }

  std::array<Entry, ops::kMostExperts> entries_;
  std::int64_t most_;
  std::int64_t count_ = 0;
};

}  // namespace phalanx::cpu
