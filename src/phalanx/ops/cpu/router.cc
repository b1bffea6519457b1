// A task has some rows. Everything is in double and rounded once: beside the products of experts it
// takes no time.

#include "phalanx/ops/router.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/router_scores.h"
#include "phalanx/ops/fault.h"

namespace phalanx::cpu {
namespace {

// Numbers of a token's chosen experts.
using ChosenNumbers = std::array<double, ops::kMostChosenExperts>;

bool is_finite(float z) { return std::isfinite(z); }

// The first row with a logit that is not finite, met by tasks in any order.
class FirstBadRow {
 public:
  // Whether the row is good.
  bool look(const float* logits, std::int64_t row, std::int64_t experts) {
    if (std::all_of(logits, logits + experts, is_finite)) return true;
    std::int64_t first = row_;
    while (row < first && !row_.compare_exchange_weak(first, row)) {
    }
    return false;
  }
  template <typename Op>
  void throw_any(const float* logits, std::int64_t experts) const {
    if (row_ == kNone) return;
    const float* row = logits + row_ * experts;
    ops::fail({.op = ops::number_in<Op>(ops::OpList()),
               .row = row_,
               .value = std::find_if_not(row, row + experts, is_finite) - row,
               .limit = experts});
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> row_ = kNone;
};

// Marks the groups whose experts can be chosen; `choice` has the choice scores of all experts.
void open_groups(const ops::RouterRule& rule, const float* z, const ExpertNumbers& choice,
                 std::int64_t experts, std::array<bool, ops::kMostExperts>& open) {
  ExpertNumbers probabilities;
  const bool of_probabilities = rule.score == ops::RouterScore::kSoftmaxFirst;
  if (of_probabilities) softmax(z, experts, probabilities.data());
  const double* scores = of_probabilities ? probabilities.data() : choice.data();
  const std::int64_t size = experts / rule.groups;
  Largest groups(rule.group_topk);
  for (std::int64_t g = 0; g < rule.groups; ++g) {
    Largest best(rule.group_best);
    for (std::int64_t i = 0; i < size; ++i) best.add(scores[g * size + i], i);
    groups.add(best.sum(), g);
  }
  std::fill_n(open.begin(), rule.groups, false);
  for (std::int64_t j = 0; j < groups.count(); ++j) {
    open[static_cast<std::size_t>(groups.number(j))] = true;
  }
}

// The best experts of a token, not in order.
void choose(const ops::RouterForward& op, const float* z, const float* bias, std::int32_t* chosen) {
  const ops::RouterRule& rule = op.rule;
  const std::int64_t experts = op.logits.shape[1];
  ExpertNumbers choice;
  const bool by_score = !ops::is_softmax(rule.score) && (bias != nullptr || rule.groups > 1);
  for (std::int64_t e = 0; e < experts; ++e) {
    double& own = choice[static_cast<std::size_t>(e)];
    own = by_score ? score_of(rule.score, z[e]) : z[e];
    if (bias != nullptr) own += bias[e];
  }
  Largest best(op.experts.shape[1]);
  const std::int64_t size = experts / rule.groups;
  std::array<bool, ops::kMostExperts> open;
  open[0] = true;
  if (rule.groups > 1) open_groups(rule, z, choice, experts, open);
  for (std::int64_t g = 0; g < rule.groups; ++g) {
    if (!open[static_cast<std::size_t>(g)]) continue;
    for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
      best.add(choice[static_cast<std::size_t>(e)], e);
    }
  }
  for (std::int64_t j = 0; j < best.count(); ++j) chosen[j] = best.number(j);
}

// s = the scores of the chosen experts, whose logits are `own`. Divided by the result they are
// probabilities, before the scaling. kSoftmaxFirst needs the logits z of all experts.
double chosen_scores(ops::RouterScore score, const float* z, std::int64_t experts,
                     const ChosenNumbers& own, std::int64_t chosen, ChosenNumbers& s) {
  switch (score) {
    case ops::RouterScore::kSoftmax:
      softmax(own.data(), chosen, s.data());
      return 1.0;
    case ops::RouterScore::kSoftmaxFirst: {
      const double largest = *std::max_element(z, z + experts);
      double sum = 0.0;
      for (std::int64_t e = 0; e < experts; ++e) sum += std::exp(z[e] - largest);
      for (std::size_t j = 0; j < static_cast<std::size_t>(chosen); ++j) {
        s[j] = std::exp(own[j] - largest);
      }
      return sum;
    }
    case ops::RouterScore::kSigmoid:
    case ops::RouterScore::kSqrtSoftplus:
      break;
  }
  const double sum = scores_of(score, own.data(), chosen, s.data());
  return chosen == 1 ? 1.0 : sum;
}

// The operands of a backward pass.
struct Backward {
  explicit Backward(const ops::RouterBackward& op)
      : rule(op.rule),
        experts(op.logits.shape[1]),
        chosen(op.experts.shape[1]),
        sequences(op.dscores ? op.dscores.shape[0] : 1),
        logits(dense<float>(op.logits)),
        dprobabilities(dense<float>(op.dprobabilities)),
        dscores(dense<float>(op.dscores)),
        places(dense<std::int32_t>(op.experts)),
        dlogits(dense<float>(op.dlogits)),
        z_factor(op.z_loss == 0.0 ? 0.0 : op.z_loss * *dense<float>(op.scale)) {}

  // dz = the part of the probabilities; `all` are the softmax of all logits, where it is needed.
  void of_probabilities(std::int64_t r, const ExpertNumbers& all, ExpertNumbers& dz) const {
    const float* z = logits + r * experts;
    ChosenNumbers own{}, weights{}, s{};
    std::array<std::size_t, ops::kMostChosenExperts> at;
    const auto count = static_cast<std::size_t>(chosen);
    for (std::size_t j = 0; j < count; ++j) {
      const std::int32_t place = places[r * chosen + static_cast<std::int64_t>(j)];
      at[j] = static_cast<std::size_t>(ops::chosen_expert(place));
      own[j] = z[at[j]];
      weights[j] = place < 0
                       ? 0.0
                       : rule.scaling * dprobabilities[r * chosen + static_cast<std::int64_t>(j)];
    }
    double mean = 0.0;
    if (rule.score == ops::RouterScore::kSoftmaxFirst) {
      for (std::size_t j = 0; j < count; ++j) mean += weights[j] * all[at[j]];
      for (std::int64_t e = 0; e < experts; ++e) {
        dz[static_cast<std::size_t>(e)] = -mean * all[static_cast<std::size_t>(e)];
      }
      for (std::size_t j = 0; j < count; ++j) dz[at[j]] = all[at[j]] * (weights[j] - mean);
      return;
    }
    std::fill_n(dz.begin(), experts, 0.0);
    const double sum = chosen_scores(rule.score, z, experts, own, chosen, s);
    const bool is_plain = chosen == 1 && !ops::is_softmax(rule.score);
    if (!is_plain) {
      for (std::size_t j = 0; j < count; ++j) mean += weights[j] * s[j] / sum;
    }
    for (std::size_t j = 0; j < count; ++j) {
      const double slope =
          ops::is_softmax(rule.score) ? s[j] : score_slope(rule.score, own[j], s[j]);
      dz[at[j]] = slope * (weights[j] - mean) / sum;
    }
  }

  void add_balance(std::int64_t r, const ExpertNumbers& all, ExpertNumbers& dz) const {
    const float* z = logits + r * experts;
    const float* weights = dscores + r % sequences * experts;
    ExpertNumbers scores;
    const bool softmax = ops::is_softmax(rule.score);
    const double* s = softmax ? all.data() : scores.data();
    const double sum = softmax ? 1.0 : scores_of(rule.score, z, experts, scores.data());
    double mean = 0.0;
    for (std::int64_t e = 0; e < experts; ++e) mean += weights[e] * s[e] / sum;
    for (std::int64_t e = 0; e < experts; ++e) {
      const double slope = softmax ? s[e] : score_slope(rule.score, z[e], s[e]);
      dz[static_cast<std::size_t>(e)] += slope * (weights[e] - mean) / sum;
    }
  }

  void row(std::int64_t r) const {
    ExpertNumbers all, dz;
    double log_sum = 0.0;
    const bool needs_all = rule.score == ops::RouterScore::kSoftmaxFirst || z_factor != 0.0 ||
                           (ops::is_softmax(rule.score) && dscores != nullptr);
    if (needs_all) log_sum = softmax(logits + r * experts, experts, all.data());
    of_probabilities(r, all, dz);
    if (dscores != nullptr) add_balance(r, all, dz);
    float* to = dlogits + r * experts;
    for (std::int64_t e = 0; e < experts; ++e) {
      double value = dz[static_cast<std::size_t>(e)];
      if (z_factor != 0.0) value += 2.0 * z_factor * log_sum * all[static_cast<std::size_t>(e)];
      to[e] = static_cast<float>(value);
    }
  }

  ops::RouterRule rule;
  std::int64_t experts, chosen, sequences;
  const float* logits;
  const float* dprobabilities;
  const float* dscores;
  const std::int32_t* places;
  float* dlogits;
  double z_factor;
};

}  // namespace

void execute(CpuDevice& device, const ops::RouterForward& op, const Tensor& /*scratch*/) {
  const std::int64_t experts = op.logits.shape[1];
  const std::int64_t chosen = op.experts.shape[1];
  const float* logits = dense<float>(op.logits);
  const float* bias = dense<float>(op.bias);
  auto* places = dense<std::int32_t>(op.experts);
  float* probabilities = dense<float>(op.probabilities);
  FirstBadRow bad;
  const Blocks blocks = row_blocks(op.logits.shape[0], 4 * experts);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const float* z = logits + r * experts;
      std::int32_t* own = places + r * chosen;
      if (!bad.look(z, r, experts)) continue;
      if (op.choice == ops::RouterChoice::kBest) choose(op, z, bias, own);
      if (op.choice == ops::RouterChoice::kTurns) {
        for (std::int64_t j = 0; j < chosen; ++j) {
          own[j] = static_cast<std::int32_t>((r * chosen + j) % experts);
        }
      }
      std::sort(own, own + chosen);
      ChosenNumbers of_chosen{}, s{};
      for (std::int64_t j = 0; j < chosen; ++j) of_chosen[static_cast<std::size_t>(j)] = z[own[j]];
      const double sum = chosen_scores(op.rule.score, z, experts, of_chosen, chosen, s);
      for (std::int64_t j = 0; j < chosen; ++j) {
        probabilities[r * chosen + j] =
            static_cast<float>(op.rule.scaling * s[static_cast<std::size_t>(j)] / sum);
      }
    }
  });
  bad.throw_any<ops::RouterForward>(logits, experts);
}

void execute(CpuDevice& device, const ops::RouterBackward& op, const Tensor& /*scratch*/) {
  const Backward pass(op);
  const Blocks blocks = row_blocks(op.logits.shape[0], 4 * pass.experts);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) pass.row(r);
  });
}

// The pairs of each expert in the order of rows, and where each expert's begin.
std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::RouterCapacity& op) {
  return (op.experts.count() + 2 * op.all_experts + 1) * size_of(DType::kI64);
}

void execute(CpuDevice& device, const ops::RouterCapacity& op, const Tensor& scratch) {
  auto* places = dense<std::int32_t>(op.experts);
  float* probabilities = dense<float>(op.probabilities);
  const std::int64_t count = op.experts.count();
  const std::int64_t all = op.all_experts;
  auto* begins = reinterpret_cast<std::int64_t*>(scratch.data());
  std::int64_t* ends = begins + all + 1;
  std::int64_t* pairs = ends + all;
  std::fill_n(begins, all + 1, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    if (places[i] >= 0) ++begins[places[i] + 1];
  }
  std::partial_sum(begins, begins + all + 1, begins);
  std::copy_n(begins, all, ends);
  for (std::int64_t i = 0; i < count; ++i) {
    if (places[i] >= 0) pairs[ends[places[i]]++] = i;
  }
  for_each_task(device.threads, all, [&](std::int64_t e, std::int64_t /*slot*/) {
    if (ends[e] - begins[e] <= op.capacity) return;
    std::int64_t* first_dropped = pairs + begins[e] + op.capacity;
    if (op.policy == ops::DropPolicy::kProbability) {
      // All pairs differ in this order.
      std::nth_element(pairs + begins[e], first_dropped, pairs + ends[e],
                       [&](std::int64_t a, std::int64_t b) {
                         return probabilities[a] > probabilities[b] ||
                                (probabilities[a] == probabilities[b] && a < b);
                       });
    }
    for (const std::int64_t* pair = first_dropped; pair < pairs + ends[e]; ++pair) {
      places[*pair] = ops::dropped_expert(static_cast<std::int32_t>(e));
    }
  });
  for (std::int64_t i = 0; i < count; ++i) {
    if (places[i] < 0) probabilities[i] = 0.0F;
  }
}

// exp(logits), d0 and d1, and the sums of experts over each block of rows.
std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::SinkhornChoice& op) {
  const std::int64_t blocks = partial_sum_blocks(op.logits.shape[0]).count();
  return (op.logits.count() + (blocks + 1) * op.logits.shape[1]) * size_of(DType::kF64);
}

void execute(CpuDevice& device, const ops::SinkhornChoice& op, const Tensor& scratch) {
  const std::int64_t tokens = op.logits.shape[0];
  const std::int64_t experts = op.logits.shape[1];
  const std::int64_t chosen = op.experts.shape[1];
  const float* logits = dense<float>(op.logits);
  auto* places = dense<std::int32_t>(op.experts);
  auto* c = reinterpret_cast<double*>(scratch.data());
  double* d1 = c + tokens * experts;
  double* partial = d1 + experts;
  const Blocks blocks = partial_sum_blocks(tokens);
  const auto for_rows = [&](const auto& body) {
    parallel_for(device.threads, blocks.count(), [&](std::int64_t block) {
      for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) body(block, r);
    });
  };
  FirstBadRow bad;
  for_rows([&](std::int64_t /*block*/, std::int64_t r) {
    bad.look(logits + r * experts, r, experts);
    for (std::int64_t e = r * experts; e < (r + 1) * experts; ++e) c[e] = std::exp(logits[e]);
  });
  bad.throw_any<ops::SinkhornChoice>(logits, experts);
  std::fill_n(d1, experts, 1.0);
  double change = 1.0;
  for (int round = 0; round < ops::kSinkhornRounds && change > ops::kSinkhornTolerance; ++round) {
    std::fill_n(partial, blocks.count() * experts, 0.0);
    for_rows([&](std::int64_t block, std::int64_t r) {
      const double* row = c + r * experts;
      double* sums = partial + block * experts;
      const double sum = std::inner_product(row, row + experts, d1, ops::kSinkhornEpsilon);
      const double d0 = 1.0 / (static_cast<double>(tokens) * sum);
      for (std::int64_t e = 0; e < experts; ++e) sums[e] += d0 * row[e];
    });
    change = 0.0;
    for (std::int64_t e = 0; e < experts; ++e) {
      double sum = ops::kSinkhornEpsilon;
      for (std::int64_t block = 0; block < blocks.count(); ++block) {
        sum += partial[block * experts + e];
      }
      const double next = 1.0 / (static_cast<double>(experts) * sum);
      change += std::abs(next - d1[e]) / static_cast<double>(experts);
      d1[e] = next;
    }
  }
  for_rows([&](std::int64_t /*block*/, std::int64_t r) {
    Largest best(chosen);
    for (std::int64_t e = 0; e < experts; ++e) best.add(c[r * experts + e] * d1[e], e);
    std::int32_t* own = places + r * chosen;
    for (std::int64_t j = 0; j < chosen; ++j) own[j] = best.number(j);
    std::sort(own, own + chosen);
  });
}

}  // namespace phalanx::cpu
