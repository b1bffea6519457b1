#include "expectations.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "compare.h"
#include "transfer_formulas.h"

namespace phalanx {
namespace {

struct Tolerance {
  double loss, grad_norm, gradient, moment, all_weights;
  std::optional<double> weight;  // none where rounding moves some parameter anywhere
};

// Where the layout adds its sums in another order: of gradients, in fp32, over data-parallel ranks;
// and over tensor-parallel ranks, and of attention over the ranks of a context, in every layer,
// where a 16-bit step rounds the result, to 2^-9 in bf16 and 2^-12 in fp16. Without these the
// gradients of step 1 are those of one rank to fp32 rounding, whatever weights are stored in; from
// then on stored weights may round otherwise too. Adam divides by the size of the gradient, so
// where that is small, weights move apart faster than all of them together do. Everything is at
// least twice what was measured.
Tolerance tolerance_of(const Layout& layout) {
  const bool sums_in_layers = layout.tensor > 1 || layout.context > 1;
  switch (layout.storage) {
    case StorageType::kF32:
      return {.loss = 1e-5,
              .grad_norm = 5e-5,
              .gradient = 1e-5,
              .moment = 3e-4,
              .all_weights = 5e-4,
              .weight = 5e-4};
    case StorageType::kBF16:
    case StorageType::kBF16ResidualF32:
      // Of one step, whose routing is the same. A gradient is rounded some twenty times on its way,
      // independently, to 2^-9 each: sqrt(20) 2^-9 = 0.9 %.
      if (sums_in_layers && layout.experts > 0) {
        return {.loss = 1e-5,
                .grad_norm = 5e-4,
                .gradient = 2e-2,
                .moment = 2e-2,
                .all_weights = 0.12,
                .weight = {}};
      }
      if (sums_in_layers) {
        return {.loss = 2e-3,
                .grad_norm = 3e-2,
                .gradient = 5e-2,
                .moment = 0.1,
                .all_weights = 0.1,
                .weight = {}};
      }
      return {.loss = 5e-4,
              .grad_norm = 8e-3,
              .gradient = 1e-6,
              .moment = 3e-2,
              .all_weights = 2e-2,
              .weight = 3e-2};
    case StorageType::kF16:
    case StorageType::kF16ResidualF32:
      break;
  }
  if (sums_in_layers) {
    return {.loss = 1e-3,
            .grad_norm = 1e-2,
            .gradient = 8e-3,
            .moment = 0.17,
            .all_weights = 4e-2,
            .weight = {}};
  }
  return {.loss = 2e-4,
          .grad_norm = 2.5e-3,
          .gradient = 1e-6,
          .moment = 5e-3,
          .all_weights = 3e-3,
          .weight = 4e-3};
}

TrainConfig config_of_legal(const Layout& layout) {
  const auto config = legal_config(layout);
  PHALANX_CHECK(config.has_value(), "{} is not a layout", name_of(layout));
  return *config;
}

bool shows_distances() { return std::getenv("PHALANX_SHOW_DISTANCES") != nullptr; }

}  // namespace

const TrainingResult& Trainings::of(const Layout& layout, int steps) {
  const auto [found, is_new] = results_.try_emplace({name_of(layout), steps});
  if (is_new) found->second = train(config_of_legal(layout), steps);
  return found->second;
}

TrainingResult expect_training(const Layout& layout, int steps, Trainings& trainings) {
  const TrainConfig config = config_of_legal(layout);
  TrainingResult result = train(config, steps);
  EXPECT_EQ(result.faults, std::vector<std::string>{});
  EXPECT_EQ(result.skipped, std::vector<bool>(static_cast<std::size_t>(steps), false));
  expect_planned_traffic(result);
  expect_step_of_own_gradients(result, config);
  const Layout plain = without_bitwise_features(layout);
  if (name_of(plain) != name_of(layout)) {
    EXPECT_EQ(first_difference(result, trainings.of(plain, steps)), "");
  }
  return result;
}

void expect_close(const TrainingResult& result, const TrainingResult& one_rank,
                  const Layout& layout) {
  const Distance d = distance(result, one_rank);
  Tolerance t = tolerance_of(layout);
  // An adapter's A moves first by gradients that are small beside the rounding of 16 bits, and Adam
  // makes whole steps of them.
  if (!layout.adapters.empty() && layout.storage != StorageType::kF32) {
    t.all_weights = std::max(t.all_weights, 1e-2);
    t.weight.reset();
  }
  // Its second loss is a mean of few numbers.
  if (layout.family == "bert" && layout.storage != StorageType::kF32) t.loss *= 3.0;
  EXPECT_EQ(result.initial_weights, one_rank.initial_weights);
  EXPECT_LE(d.loss, t.loss);
  EXPECT_LE(d.grad_norm, t.grad_norm);
  EXPECT_LE(d.gradient, t.gradient) << d.gradient_of;
  EXPECT_LE(d.moment, t.moment) << d.moment_of;
  EXPECT_LE(d.all_weights, t.all_weights);
  if (t.weight) {
    EXPECT_LE(d.weight, *t.weight) << d.weight_of;
  }
  if (shows_distances()) {
    fmt::print("{:.1e} {:.1e} {:.1e} {:.1e} {:.1e} {:.1e} {}\n", d.loss, d.grad_norm, d.gradient,
               d.moment, d.all_weights, d.weight, name_of(layout));
  }
}

void expect_step_of_own_gradients(const TrainingResult& result, const TrainConfig& config) {
  const StepError error = error_of_first_step(result, config);
  EXPECT_LE(error.grad_norm, 5e-7);
  EXPECT_LE(error.moment, 1e-6) << error.moment_of;
  EXPECT_LE(error.weight, 5e-5) << error.weight_of;
  if (shows_distances()) {
    fmt::print("step 1: {:.1e} {:.1e} {:.1e}\n", error.grad_norm, error.moment, error.weight);
  }
}

void expect_planned_traffic(const TrainingResult& result) {
  for (std::size_t rank = 0; rank < result.measured.size(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const MeasuredStep& step = result.measured[rank];
    EXPECT_EQ(describe(step.recorded), describe(step.planned));
    EXPECT_EQ(step.bytes_moved, payload(step.recorded));
    EXPECT_EQ(describe(step.transfers), describe(step.planned_transfers));
  }
}

void expect_traffic(const TrainingResult& result, const TrainConfig& config) {
  expect_planned_traffic(result);
  for (std::size_t rank = 0; rank < result.measured.size(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const MeasuredStep& step = result.measured[rank];
    const int number = static_cast<int>(rank);
    EXPECT_EQ(describe(step.recorded), describe(step_messages(config, kVocabulary, number)));
    EXPECT_EQ(describe(step.transfers), describe(step_transfers(config, kVocabulary, number)));
  }
}

// Sanitizers are slow and look for something else than rounding: the covering set suffices them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
bool is_nightly() { return false; }
#else
bool is_nightly() { return std::getenv("PHALANX_NIGHTLY") != nullptr; }
#endif

}  // namespace phalanx
