#include "phalanx/settings/expert_views.h"

#include <algorithm>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/layer_choice.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

using Kind = nn::RouterLoss::Kind;

constexpr std::string_view kSinkhorn = "sinkhorn";

ops::RouterScore router_score(const ExpertConfig& config) {
  // As in Megatron: a token's only expert could not learn from a softmax.
  if (balances_by(config, kSinkhorn)) {
    return config.moe_router_topk == 1 ? ops::RouterScore::kSigmoid
                                       : ops::RouterScore::kSoftmaxFirst;
  }
  if (config.moe_router_score_function == "sigmoid") return ops::RouterScore::kSigmoid;
  if (config.moe_router_score_function == "sqrtsoftplus") return ops::RouterScore::kSqrtSoftplus;
  return config.moe_router_pre_softmax ? ops::RouterScore::kSoftmaxFirst
                                       : ops::RouterScore::kSoftmax;
}

ops::RouterRule router_rule(const ExpertConfig& config) {
  ops::RouterRule rule{.score = router_score(config)};
  if (config.moe_router_num_groups > 0) {
    rule.groups = config.moe_router_num_groups;
    rule.group_topk = config.moe_router_group_topk;
    rule.group_best = scores_of_group(config);
  }
  if (config.moe_router_topk_scaling_factor > 0.0) {
    rule.scaling = config.moe_router_topk_scaling_factor;
  }
  return rule;
}

double coefficient(const std::string& word) {
  const auto value = parse_number<double>(word);
  if (!value || *value < 0.0) {
    throw ConfigError("--moe-aux-loss-coeff {}: give a number of at least 0", word);
  }
  return *value;
}

nn::ExpertChoice expert_choice(const ExpertConfig& config) {
  if (config.moe_router_force_load_balancing) return nn::ExpertChoice::kForced;
  return balances_by(config, kSinkhorn) ? nn::ExpertChoice::kSinkhorn : nn::ExpertChoice::kScores;
}

// Nothing for a type without a loss.
std::optional<Kind> balancing_kind(const std::string& type) {
  if (type == "aux_loss") return Kind::kBalance;
  if (type == "seq_aux_loss") return Kind::kSequenceBalance;
  if (type == "global_aux_loss") return Kind::kGlobalBalance;
  if (type == "none" || type == kSinkhorn) return std::nullopt;
  throw ConfigError(
      "--moe-router-load-balancing-type {}: {}; give aux_loss, seq_aux_loss, global_aux_loss, "
      "sinkhorn or none",
      type,
      type == "quantile_balancing" ? "it is not available in this version of Phalanx"
                                   : "there is no such type");
}

}  // namespace

bool balances_by(const ExpertConfig& config, std::string_view type) {
  return std::ranges::find(config.moe_router_load_balancing_type, type) !=
         config.moe_router_load_balancing_type.end();
}

std::vector<bool> expert_layers_from_text(std::string_view text, std::int64_t layers) {
  std::vector<bool> has_experts =
      layers_from_text("--moe-layer-freq", text, layers,
                       [](std::int64_t layer, std::int64_t n) { return layer % n == 0; });
  if (std::ranges::find(has_experts, true) == has_experts.end()) {
    throw ConfigError("--moe-layer-freq {}: no layer has experts; leave --num-experts out", text);
  }
  return has_experts;
}

std::vector<nn::RouterLoss> router_losses(const ExpertConfig& config) {
  const std::vector<std::string>& types = config.moe_router_load_balancing_type;
  const std::vector<std::string>& words = config.moe_aux_loss_coeff;
  std::vector<nn::RouterLoss> losses;
  if (words.size() != types.size()) {
    throw ConfigError(
        "--moe-router-load-balancing-type has {} types and --moe-aux-loss-coeff {} numbers: give "
        "one for each",
        types.size(), words.size());
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::optional<Kind> kind = balancing_kind(types[i]);
    const double value = coefficient(words[i]);
    if (!kind && value != 0.0) {
      throw ConfigError("--moe-aux-loss-coeff {}: --moe-router-load-balancing-type {} has no loss",
                        words[i], types[i]);
    }
    if (kind && std::ranges::find(losses, *kind, &nn::RouterLoss::kind) != losses.end()) {
      throw ConfigError("--moe-router-load-balancing-type {} is given twice", types[i]);
    }
    if (value != 0.0) losses.push_back({.kind = *kind, .coefficient = value});
  }
  if (config.moe_z_loss_coeff > 0.0) {
    losses.push_back({.kind = Kind::kLogits, .coefficient = config.moe_z_loss_coeff});
  }
  return losses;
}

std::int64_t scores_of_group(const ExpertConfig& config) {
  if (config.moe_router_group_score == "max") return 1;
  if (config.moe_router_group_score == "auto") {
    return std::max<std::int64_t>(1, config.moe_router_topk / config.moe_router_group_topk);
  }
  const auto number = parse_number<std::int64_t>(config.moe_router_group_score);
  if (!number || *number < 1) {
    throw ConfigError("--moe-router-group-score {}: give auto, max or a number of scores",
                      config.moe_router_group_score);
  }
  return *number;
}

bool upcycles(const RunConfig& run) { return run.moe_use_upcycling && run.finetune; }

nn::ExpertSettings expert_settings(const TrainConfig& c) {
  const ExpertConfig& e = c.experts;
  if (e.num_experts == 0) return {};
  return {.experts = e.num_experts,
          .chosen = e.moe_router_topk,
          .ffn_hidden = e.moe_ffn_hidden_size,
          .layers = expert_layers_from_text(e.moe_layer_freq, c.model.num_layers),
          .rule = router_rule(e),
          .choice = expert_choice(e),
          .bias = e.moe_router_enable_expert_bias,
          .bias_rate = e.moe_router_bias_update_rate,
          .input_jitter = e.moe_input_jitter_eps,
          .row_copies = c.run.moe_use_upcycling ? c.run.moe_upcycling_granularity : 1,
          .losses = router_losses(e),
          .capacity_factor = std::max(0.0, e.moe_expert_capacity_factor),
          .drop_policy = e.moe_token_drop_policy == "probs" ? ops::DropPolicy::kProbability
                                                            : ops::DropPolicy::kPosition,
          .pad_to_capacity = e.moe_pad_expert_input_to_capacity,
          .dispatch = e.moe_token_dispatcher_type == "allgather" ? nn::TokenDispatch::kAllGather
                                                                 : nn::TokenDispatch::kAllToAll,
          .planned_imbalance = e.moe_planned_imbalance,
          .shared_ffn_hidden = e.moe_shared_expert_intermediate_size,
          .shared_gate = e.moe_shared_expert_gate};
}

nn::RowSizes expert_rows(const TrainConfig& c) {
  const LayoutConfig& l = c.layout;
  const std::int64_t shards =
      l.context_parallel_size * (l.sequence_parallel ? l.tensor_model_parallel_size : 1);
  const ExpertParallel layout{.size = static_cast<int>(l.expert_model_parallel_size),
                              .tensor_size = static_cast<int>(l.expert_tensor_parallel_size)};
  return nn::row_sizes(expert_settings(c), layout, c.data.seq_length / shards * l.micro_batch_size);
}

}  // namespace phalanx
