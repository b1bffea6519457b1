#pragma once
// The scores of a token's experts, which a warp has: lane l those of experts l, l + 32, ... In
// double, as on the host: logits are few beside the experts' products.

#include "phalanx/cuda/simt.h"
#include "phalanx/ops/router_rule.h"

namespace phalanx::cuda {

// As ops::is_softmax() and ops::dropped_expert(), which are the host's.
PHALANX_DEVICE bool has_softmax(ops::RouterScore score) {
  return score <= ops::RouterScore::kSoftmaxFirst;
}
PHALANX_DEVICE int dropped(int expert) { return -1 - expert; }

// A number that is not finite counts as 0; whoever may report it has done so.
PHALANX_DEVICE bool is_finite(float z) { return z - z == 0.0F; }
PHALANX_DEVICE double logit_of(float z) { return is_finite(z) ? static_cast<double>(z) : 0.0; }

PHALANX_DEVICE double sigmoid_of(double z) { return 1.0 / (1.0 + exp_of(-z)); }

// log(1 + x) for 0 <= x <= 1.
PHALANX_DEVICE double log_of_one_and(double x) {
  const double sum = 1.0 + x;
  return sum == 1.0 ? x : log_of(sum) * (x / (sum - 1.0));
}

// Of one logit; not of a softmax.
PHALANX_DEVICE double score_of(ops::RouterScore score, double z) {
  if (score == ops::RouterScore::kSigmoid) return sigmoid_of(z);
  return sqrt_of((z > 0.0 ? z : 0.0) + log_of_one_and(exp_of(z > 0.0 ? -z : z)));
}

// The derivative of the score `s` of a logit.
PHALANX_DEVICE double score_slope(ops::RouterScore score, double z, double s) {
  if (score == ops::RouterScore::kSigmoid) return s * sigmoid_of(-z);
  return s == 0.0 ? 0.0 : sigmoid_of(z) / (2.0 * s);
}

// The largest logit of a row, and the sum of exp(z - largest). All lanes get the same.
struct LogitSum {
  double largest;
  double sum;

  PHALANX_DEVICE double log_sum() const { return largest + log_of(sum); }
  PHALANX_DEVICE double softmax(double z) const { return exp_of(z - largest) / sum; }
};
PHALANX_DEVICE LogitSum logit_sum(Thread& t, const float* z, int experts) {
  double largest = logit_of(z[0]);
  for (int e = t.lane(); e < experts; e += 32) {
    const double value = logit_of(z[e]);
    if (value > largest) largest = value;
  }
  largest = warp_max(t, largest);
  double sum = 0.0;
  for (int e = t.lane(); e < experts; e += 32) sum += exp_of(logit_of(z[e]) - largest);
  return {largest, warp_sum(t, sum)};
}

// What the scores of all experts are divided by.
PHALANX_DEVICE double score_sum(Thread& t, ops::RouterScore score, const float* z, int experts) {
  double sum = 0.0;
  for (int e = t.lane(); e < experts; e += 32) sum += score_of(score, logit_of(z[e]));
  return warp_sum(t, sum) + ops::kScoreEpsilon;
}

// The value of a place and the place; -1: none.
struct Candidate {
  double value;
  int place;

  PHALANX_DEVICE bool beats(const Candidate& other) const {
    if (place < 0) return false;
    return other.place < 0 || value > other.value || (value == other.value && place < other.place);
  }
};

// Calls visit(j, place) in all lanes for the j-th largest of the values of places 0 to count that
// are open: those whose group of `size` places is, or all where `open` is null. Of equal values the
// lower place is first. A lane's places are marked in a word, so there are at most 1,024.
template <typename Visit>
PHALANX_DEVICE void for_largest(Thread& t, const double* values, int count,
                                const std::uint32_t* open, int size, int most, const Visit& visit) {
  std::uint32_t taken = 0;
  for (int j = 0; j < most; ++j) {
    Candidate best{0.0, -1};
    for (int i = 0; i * 32 + t.lane() < count; ++i) {
      const int place = i * 32 + t.lane();
      const Candidate own{values[place], place};
      const bool is_open = open == nullptr || open[place / size] != 0;
      if (is_open && (taken >> i & 1U) == 0 && own.beats(best)) best = own;
    }
    for (int mask = 16; mask > 0; mask /= 2) {
      const Candidate other{t.shuffle_xor(best.value, mask), t.shuffle_xor(best.place, mask)};
      if (other.beats(best)) best = other;
    }
    if (best.place % 32 == t.lane()) taken |= 1U << (best.place / 32);
    visit(j, best.place);
  }
}

// The sum of the first `count` lanes' values, in order.
PHALANX_DEVICE double sum_of_lanes(Thread& t, double value, int count) {
  double sum = 0.0;
  for (int j = 0; j < count; ++j) sum += t.shuffle(value, j);
  return sum;
}

// The number that lane j has of the first `count`, rising.
PHALANX_DEVICE int place_in_order(Thread& t, int own, int count) {
  int place = 0;
  for (int j = 0; j < count; ++j) place += t.shuffle(own, j) < own ? 1 : 0;
  return place;
}

}  // namespace phalanx::cuda
