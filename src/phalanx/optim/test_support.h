#pragma once
// A rank with its optimizer, for tests.

#include <memory>
#include <optional>
#include <utility>

#include "phalanx/data_parallel/test_support.h"
#include "phalanx/optim/optimizer.h"

namespace phalanx {

inline constexpr AdamRule kAdam{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
inline constexpr OptimizerSettings kSettings{.rule = kAdam, .clip_grad = 1.0, .count_zeros = true};

struct OptimizerRank {
  OptimizerRank(const nn::ParamTable& table, const StateCut& shard, const OptimizerGroups& groups,
                std::unique_ptr<Backend> machine, const OptimizerSettings& settings = kSettings)
      : OptimizerRank(table, whole_model_places(table), shard, groups, std::move(machine),
                      settings) {}
  // Of a part of a model.
  OptimizerRank(const nn::ParamTable& table, ModelPlaces places, const StateCut& shard,
                const OptimizerGroups& groups, std::unique_ptr<Backend> machine,
                const OptimizerSettings& settings = kSettings)
      : stores(table, std::move(places), shard, std::move(machine)),
        optimizer(stores.parameters, stores.gradients, settings, groups, stores.memory,
                  stores.memory),
        loss_scale(stores.memory.allocate(stores.gradients.flat().dtype, {1})),
        tokens(stores.memory.allocate(DType::kF64, {1})) {
    optimizer.initialise(stores.context);
    ops::fill(stores.context, {.x = loss_scale, .value = 2.0});
    ops::fill(stores.context, {.x = tokens, .value = 7.0});
  }

  void step(std::int64_t number, double lr = 0.01) {
    optimizer.step(stores.context, {.lr = lr,
                                    .decoupled_lr = decoupled_lr,
                                    .weight_decay = 0.1,
                                    .step = number,
                                    .tokens = tokens,
                                    .expected_tokens = 8.0,
                                    .loss_scale = loss_scale});
  }

  StoreRank stores;
  Optimizer optimizer;
  Tensor loss_scale, tokens;
  std::optional<double> decoupled_lr;
};

}  // namespace phalanx
