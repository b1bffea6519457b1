#include "phalanx/optim/optimizer_rule.h"

#include <array>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::array<std::string_view, 2> kAdamStates = {"exp_avg", "exp_avg_sq"};
constexpr std::array<std::string_view, 1> kSgdStates = {"momentum_buffer"};

void apply(Context& context, const AdamRule& rule, const WeightUpdate& update) {
  ops::adam(context, {.weight = update.weight,
                      .storage = update.storage,
                      .gradient = update.gradient,
                      .exp_avg = update.states[0],
                      .exp_avg_sq = update.states[1],
                      .factor = update.factor,
                      .skip = update.skip,
                      .lr = update.lr,
                      .beta1 = rule.beta1,
                      .beta2 = rule.beta2,
                      .epsilon = rule.epsilon,
                      .weight_decay = update.weight_decay,
                      .step = update.step});
}

void apply(Context& context, const SgdRule& rule, const WeightUpdate& update) {
  ops::sgd(context, {.weight = update.weight,
                     .storage = update.storage,
                     .gradient = update.gradient,
                     .momentum_buffer = update.states.empty() ? Tensor{} : update.states[0],
                     .factor = update.factor,
                     .skip = update.skip,
                     .lr = update.lr,
                     .momentum = rule.momentum,
                     .weight_decay = update.weight_decay});
}

std::span<const std::string_view> names_of(const AdamRule& /*rule*/) { return kAdamStates; }
std::span<const std::string_view> names_of(const SgdRule& rule) {
  return rule.momentum > 0.0 ? std::span<const std::string_view>(kSgdStates)
                             : std::span<const std::string_view>();
}

}  // namespace

std::span<const std::string_view> state_names(const OptimizerRule& rule) {
  return std::visit([](const auto& one) { return names_of(one); }, rule);
}

void update_weights(Context& context, const OptimizerRule& rule, const WeightUpdate& update) {
  PHALANX_CHECK(update.states.size() == state_names(rule).size(), "{} states for {}",
                update.states.size(), state_names(rule).size());
  std::visit([&](const auto& one) { apply(context, one, update); }, rule);
}

}  // namespace phalanx
