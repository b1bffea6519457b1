#include "phalanx/ops/router.h"

#include <limits>

#include "phalanx/ops/fault.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"
#include "phalanx/ops/ref/router_scores.h"

namespace phalanx::ref {
namespace {

using Row = std::vector<double>;

Row row_of(const Array& array, std::int64_t r) {
  return {array.row(r), array.row(r) + array.shape[1]};
}

template <typename Op>
void expect_finite(std::int64_t row, const Row& logits) {
  for (std::size_t e = 0; e < logits.size(); ++e) {
    if (std::isfinite(logits[e])) continue;
    ops::fail({.op = ops::number_in<Op>(ops::OpList()),
               .row = row,
               .value = static_cast<std::int64_t>(e),
               .limit = static_cast<std::int64_t>(logits.size())});
  }
}

// Experts outside of the best groups get minus infinity.
void mask_groups(const ops::RouterRule& rule, const Row& logits, Row& choice) {
  const auto size = static_cast<std::int64_t>(choice.size()) / rule.groups;
  const Row scores = rule.score == ops::RouterScore::kSoftmaxFirst ? softmax(logits) : choice;
  Row of_group;
  for (std::int64_t g = 0; g < rule.groups; ++g) {
    const Row own(scores.begin() + g * size, scores.begin() + (g + 1) * size);
    double sum = 0.0;
    for (const std::int64_t i : places_of_largest(own, rule.group_best)) {
      sum += own[static_cast<std::size_t>(i)];
    }
    of_group.push_back(sum);
  }
  Row masked(choice.size(), -std::numeric_limits<double>::infinity());
  for (const std::int64_t g : places_of_largest(of_group, rule.group_topk)) {
    std::copy_n(choice.begin() + g * size, size, masked.begin() + g * size);
  }
  choice = masked;
}

std::vector<std::int64_t> best_experts(const ops::RouterForward& op, const Row& logits,
                                       const Array& bias) {
  Row choice = logits;
  if (!ops::is_softmax(op.rule.score) && (op.bias || op.rule.groups > 1)) {
    choice = scores_of(op.rule.score, logits);
    for (std::size_t e = 0; op.bias && e < choice.size(); ++e) choice[e] += bias.values[e];
  }
  if (op.rule.groups > 1) mask_groups(op.rule, logits, choice);
  return places_of_largest(choice, op.experts.shape[1]);
}

Row values_at(const Row& all, const std::vector<std::int64_t>& places) {
  Row some;
  for (const std::int64_t place : places) some.push_back(all[static_cast<std::size_t>(place)]);
  return some;
}

// The probabilities of chosen experts.
Row probabilities_of(const ops::RouterRule& rule, const Row& logits,
                     const std::vector<std::int64_t>& chosen) {
  switch (rule.score) {
    case ops::RouterScore::kSoftmax:
      return softmax(values_at(logits, chosen));
    case ops::RouterScore::kSoftmaxFirst:
      return values_at(softmax(logits), chosen);
    case ops::RouterScore::kSigmoid:
    case ops::RouterScore::kSqrtSoftplus:
      break;
  }
  const Row scores = values_at(scores_of(rule.score, logits), chosen);
  return chosen.size() == 1 ? scores : normalised(scores);
}

// The derivative by all logits of sum(weights * probabilities).
Row logit_gradient(const ops::RouterRule& rule, const Row& logits,
                   const std::vector<std::int64_t>& chosen, const Row& weights) {
  Row dz(logits.size(), 0.0);
  const Row own = values_at(logits, chosen);
  Row of_chosen;
  switch (rule.score) {
    case ops::RouterScore::kSoftmaxFirst: {
      for (std::size_t j = 0; j < chosen.size(); ++j) {
        dz[static_cast<std::size_t>(chosen[j])] = weights[j];
      }
      return softmax_gradient(softmax(logits), dz);
    }
    case ops::RouterScore::kSoftmax:
      of_chosen = softmax_gradient(softmax(own), weights);
      break;
    case ops::RouterScore::kSigmoid:
    case ops::RouterScore::kSqrtSoftplus:
      of_chosen = chosen.size() == 1 ? Row{weights[0] * score_slope(rule.score, own[0])}
                                     : normalised_gradient(rule.score, own, weights);
      break;
  }
  for (std::size_t j = 0; j < chosen.size(); ++j) {
    dz[static_cast<std::size_t>(chosen[j])] = of_chosen[j];
  }
  return dz;
}

void add(Row& to, const Row& more) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::RouterForward& op, const Tensor& /*scratch*/) {
  const Array logits = read(op.logits);
  const Array bias = read(op.bias);
  const std::int64_t chosen_count = op.experts.shape[1];
  Integers experts = op.choice == ops::RouterChoice::kGiven ? read_integers(op.experts)
                                                            : Integers(op.experts.shape);
  Array probabilities(op.probabilities.shape);
  for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
    const Row row = row_of(logits, r);
    expect_finite<ops::RouterForward>(r, row);
    std::vector<std::int64_t> chosen;
    switch (op.choice) {
      case ops::RouterChoice::kBest:
        chosen = best_experts(op, row, bias);
        break;
      case ops::RouterChoice::kTurns:
        for (std::int64_t j = 0; j < chosen_count; ++j) {
          chosen.push_back((r * chosen_count + j) % logits.shape[1]);
        }
        break;
      case ops::RouterChoice::kGiven:
        chosen.assign(experts.row(r), experts.row(r) + chosen_count);
        break;
    }
    std::ranges::sort(chosen);
    const Row p = probabilities_of(op.rule, row, chosen);
    for (std::int64_t j = 0; j < chosen_count; ++j) {
      experts(r, j) = chosen[static_cast<std::size_t>(j)];
      probabilities(r, j) = op.rule.scaling * p[static_cast<std::size_t>(j)];
    }
  }
  write_integers(op.experts, experts);
  write(op.probabilities, probabilities);
}

void execute(RefDevice& /*device*/, const ops::RouterBackward& op, const Tensor& /*scratch*/) {
  const Array logits = read(op.logits);
  const Array dprobabilities = read(op.dprobabilities);
  const Array dscores = read(op.dscores);
  const Integers experts = read_integers(op.experts);
  Array dlogits(logits.shape);
  for (std::int64_t r = 0; r < logits.shape[0]; ++r) {
    const Row row = row_of(logits, r);
    std::vector<std::int64_t> chosen;
    Row weights;
    for (std::int64_t j = 0; j < experts.shape[1]; ++j) {
      const bool dropped = experts(r, j) < 0;
      chosen.push_back(ops::chosen_expert(static_cast<std::int32_t>(experts(r, j))));
      weights.push_back(dropped ? 0.0 : op.rule.scaling * dprobabilities(r, j));
    }
    Row dz = logit_gradient(op.rule, row, chosen, weights);
    if (op.dscores) {
      const Row of_scores = row_of(dscores, r % dscores.shape[0]);
      add(dz, ops::is_softmax(op.rule.score) ? softmax_gradient(softmax(row), of_scores)
                                             : normalised_gradient(op.rule.score, row, of_scores));
    }
    if (op.z_loss != 0.0) {
      Row of_square = softmax(row);
      const double factor = 2.0 * op.z_loss * read_scalar(op.scale) * log_sum_exp(row);
      for (double& value : of_square) value *= factor;
      add(dz, of_square);
    }
    std::ranges::copy(dz, dlogits.row(r));
  }
  write(op.dlogits, dlogits);
}

void execute(RefDevice& /*device*/, const ops::RouterCapacity& op, const Tensor& /*scratch*/) {
  Integers experts = read_integers(op.experts);
  Array probabilities = read(op.probabilities);
  for (std::int64_t e = 0; e < op.all_experts; ++e) {
    std::vector<std::size_t> pairs;
    for (std::size_t i = 0; i < experts.values.size(); ++i) {
      if (experts.values[i] == e) pairs.push_back(i);
    }
    if (op.policy == ops::DropPolicy::kProbability) {
      std::ranges::stable_sort(pairs, std::greater<>(),
                               [&](std::size_t i) { return probabilities.values[i]; });
    }
    for (std::size_t i = static_cast<std::size_t>(op.capacity); i < pairs.size(); ++i) {
      experts.values[pairs[i]] = ops::dropped_expert(static_cast<std::int32_t>(e));
    }
  }
  for (std::size_t i = 0; i < experts.values.size(); ++i) {
    if (experts.values[i] < 0) probabilities.values[i] = 0.0;
  }
  write_integers(op.experts, experts);
  write(op.probabilities, probabilities);
}

void execute(RefDevice& /*device*/, const ops::SinkhornChoice& op, const Tensor& /*scratch*/) {
  Array c = read(op.logits);
  const std::int64_t tokens = c.shape[0];
  const std::int64_t all = c.shape[1];
  for (std::int64_t r = 0; r < tokens; ++r) {
    expect_finite<ops::SinkhornChoice>(r, row_of(c, r));
    for (std::int64_t e = 0; e < all; ++e) c(r, e) = std::exp(c(r, e));
  }
  Row d0(static_cast<std::size_t>(tokens));
  Row d1(static_cast<std::size_t>(all), 1.0);
  double change = 1.0;
  for (int round = 0; round < ops::kSinkhornRounds && change > ops::kSinkhornTolerance; ++round) {
    Row columns(d1.size(), 0.0);
    for (std::int64_t r = 0; r < tokens; ++r) {
      const double sum = std::inner_product(d1.begin(), d1.end(), c.row(r), 0.0);
      double& own = d0[static_cast<std::size_t>(r)];
      own = 1.0 / (static_cast<double>(tokens) * (sum + ops::kSinkhornEpsilon));
      for (std::size_t e = 0; e < columns.size(); ++e) columns[e] += own * c.row(r)[e];
    }
    change = 0.0;
    for (std::size_t e = 0; e < d1.size(); ++e) {
      const double next = 1.0 / (static_cast<double>(all) * (columns[e] + ops::kSinkhornEpsilon));
      change += std::abs(next - d1[e]) / static_cast<double>(all);
      d1[e] = next;
    }
  }
  Integers experts(op.experts.shape);
  for (std::int64_t r = 0; r < tokens; ++r) {
    Row weighted = row_of(c, r);
    for (std::size_t e = 0; e < d1.size(); ++e) weighted[e] *= d1[e];
    std::vector<std::int64_t> chosen = places_of_largest(weighted, experts.shape[1]);
    std::ranges::sort(chosen);
    std::ranges::copy(chosen, experts.row(r));
  }
  write_integers(op.experts, experts);
}

}  // namespace phalanx::ref
