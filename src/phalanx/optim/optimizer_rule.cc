#include "phalanx/optim/optimizer_rule.h"

#include <array>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::array<std::string_view, 2> kAdamStates = {"exp_avg", "exp_avg_sq"};
constexpr std::array<std::string_view, 1> kSgdStates = {"momentum_buffer"};

void apply(Context& context, const AdamRule& rule, const WeightUpdate& update) {
  ops::adam_segments(context, {.weight = update.weight,
                               .storage = update.storage,
                               .gradient = update.gradient,
                               .exp_avg = update.states[0],
                               .exp_avg_sq = update.states[1],
                               .table = update.table,
                               .first = update.first,
                               .settings = update.settings,
                               .corrections = update.step_numbers,
                               .factor = update.factor,
                               .skip = update.skip,
                               .beta1 = rule.beta1,
                               .beta2 = rule.beta2,
                               .epsilon = rule.epsilon});
}

void apply(Context& context, const SgdRule& rule, const WeightUpdate& update) {
  ops::sgd_segments(context,
                    {.weight = update.weight,
                     .storage = update.storage,
                     .gradient = update.gradient,
                     .momentum_buffer = update.states.empty() ? Tensor{} : update.states[0],
                     .table = update.table,
                     .first = update.first,
                     .settings = update.settings,
                     .factor = update.factor,
                     .skip = update.skip,
                     .momentum = rule.momentum});
}

std::array<double, kRuleNumbers> numbers_of(const AdamRule& rule, std::int64_t step) {
  return ops::adam_corrections(rule.beta1, rule.beta2, step);
}
std::array<double, kRuleNumbers> numbers_of(const SgdRule& /*rule*/, std::int64_t /*step*/) {
  return {};
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

std::array<double, kRuleNumbers> numbers_of_step(const OptimizerRule& rule, std::int64_t step) {
  return std::visit([step](const auto& one) { return numbers_of(one, step); }, rule);
}

void update_weights(Context& context, const OptimizerRule& rule, const WeightUpdate& update) {
  PHALANX_CHECK(update.states.size() == state_names(rule).size(), "{} states for {}",
                update.states.size(), state_names(rule).size());
  std::visit([&](const auto& one) { apply(context, one, update); }, rule);
}

}  // namespace phalanx
