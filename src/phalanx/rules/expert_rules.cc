// The part of resolve() that is about mixtures of experts.

#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/expert_views.h"

namespace phalanx {
namespace {

void check_router(const ExpertConfig& e) {
  if (e.num_experts > ops::kMostExperts) {
    throw ConfigError("--num-experts {}: a layer has at most {}", e.num_experts, ops::kMostExperts);
  }
  if (e.moe_router_topk > std::min(e.num_experts, ops::kMostChosenExperts)) {
    throw ConfigError("--moe-router-topk {}: a token has at most {} of --num-experts {}",
                      e.moe_router_topk, std::min(e.num_experts, ops::kMostChosenExperts),
                      e.num_experts);
  }
  const bool is_softmax = e.moe_router_score_function == "softmax";
  if (e.moe_router_pre_softmax && !is_softmax) {
    throw ConfigError(
        "--moe-router-pre-softmax and --moe-router-score-function {} exclude each "
        "other: give one",
        e.moe_router_score_function);
  }
  if (e.moe_router_enable_expert_bias && is_softmax) {
    throw ConfigError(
        "--moe-router-enable-expert-bias and --moe-router-score-function softmax exclude each "
        "other: the bias is added to the scores of sigmoid or sqrtsoftplus; give one of these, or "
        "--moe-aux-loss-coeff to balance experts by a loss");
  }
  if (e.moe_router_topk == 1 && is_softmax && !e.moe_router_pre_softmax &&
      !balances_by(e, "sinkhorn")) {
    throw ConfigError(
        "--moe-router-topk 1: the softmax over the one chosen expert is always 1, so the router "
        "would not learn; add --moe-router-pre-softmax, or --moe-router-score-function sigmoid");
  }
}

// Sinkhorn's iteration has its own scores and makes all experts equally busy.
void check_sinkhorn(const ExpertConfig& e) {
  if (!balances_by(e, "sinkhorn")) return;
  const auto refuse = [](std::string_view flag) {
    throw ConfigError(
        "--moe-router-load-balancing-type sinkhorn and {} exclude each other: leave one out", flag);
  };
  if (e.moe_router_load_balancing_type.size() > 1) refuse("another type beside it");
  if (e.moe_router_score_function != "softmax") refuse("--moe-router-score-function");
  if (e.moe_router_pre_softmax) refuse("--moe-router-pre-softmax");
  if (e.moe_router_num_groups > 0) refuse("--moe-router-num-groups");
  if (e.moe_expert_capacity_factor > 0.0) refuse("--moe-expert-capacity-factor");
  if (e.moe_router_force_load_balancing) refuse("--moe-router-force-load-balancing");
}

void check_groups(const ExpertConfig& e) {
  const std::int64_t groups = e.moe_router_num_groups;
  const std::int64_t chosen = e.moe_router_group_topk;
  if ((groups == 0) != (chosen == 0)) {
    throw ConfigError("--moe-router-num-groups {} and --moe-router-group-topk {}: give both",
                      groups, chosen);
  }
  if (groups == 0) return;
  if (e.num_experts % groups != 0) {
    throw ConfigError("--num-experts {} is not a multiple of --moe-router-num-groups {}",
                      e.num_experts, groups);
  }
  if (chosen > groups) {
    throw ConfigError("--moe-router-group-topk {} is above --moe-router-num-groups {}", chosen,
                      groups);
  }
  const std::int64_t of_group = e.num_experts / groups;
  if (e.moe_router_topk < chosen || e.moe_router_topk > chosen * of_group) {
    throw ConfigError(
        "--moe-router-topk {} and --moe-router-group-topk {}: {} groups of {} experts give a token "
        "{} to {} experts",
        e.moe_router_topk, chosen, chosen, of_group, chosen, chosen * of_group);
  }
  if (scores_of_group(e) > of_group) {
    throw ConfigError("--moe-router-group-score {}: a group has {} experts",
                      e.moe_router_group_score, of_group);
  }
}

void check_dispatch(const ExpertConfig& e) {
  if (e.moe_pad_expert_input_to_capacity && e.moe_expert_capacity_factor <= 0.0) {
    throw ConfigError(
        "--moe-pad-expert-input-to-capacity needs a --moe-expert-capacity-factor above 0: without "
        "it an expert has no capacity");
  }
  if (e.moe_planned_imbalance == ExpertConfig{}.moe_planned_imbalance) return;
  if (e.moe_token_dispatcher_type == "allgather") {
    throw ConfigError(
        "--moe-planned-imbalance {} and --moe-token-dispatcher-type allgather exclude each other: "
        "all tokens get memory on every rank; give --moe-token-dispatcher-type alltoall, or leave "
        "the first out",
        e.moe_planned_imbalance);
  }
  if (e.moe_pad_expert_input_to_capacity) {
    throw ConfigError(
        "--moe-planned-imbalance {} and --moe-pad-expert-input-to-capacity exclude each other: "
        "padded experts have equally many rows; leave one out",
        e.moe_planned_imbalance);
  }
}

void check_shared_expert(const TrainConfig& c) {
  const std::int64_t width = c.experts.moe_shared_expert_intermediate_size;
  if (width % c.layout.tensor_model_parallel_size == 0) return;
  throw ConfigError(
      "--moe-shared-expert-intermediate-size {} is not a multiple of --tensor-model-parallel-size "
      "{}",
      width, c.layout.tensor_model_parallel_size);
}

// A schedule that updates between microbatches has no step whose counts are all there.
void check_counts_of_a_step(const TrainConfig& c) {
  if (!is_asynchronous(c.layout)) return;
  const auto refuse = [&](std::string_view flag) {
    throw ConfigError(
        "--pipeline-schedule {} and {} exclude each other: the tokens of each expert are counted "
        "over the microbatches of a step, and this schedule updates in between. Leave one out",
        c.layout.pipeline_schedule, flag);
  };
  if (c.experts.moe_router_enable_expert_bias) refuse("--moe-router-enable-expert-bias");
  if (balances_by(c.experts, "global_aux_loss")) {
    refuse("--moe-router-load-balancing-type global_aux_loss");
  }
}

void check_ranks(const TrainConfig& c) {
  const ExpertConfig& e = c.experts;
  const LayoutConfig& l = c.layout;
  const std::int64_t tensor = l.tensor_model_parallel_size;
  if (e.num_experts % l.expert_model_parallel_size != 0) {
    throw ConfigError("--num-experts {} is not a multiple of --expert-model-parallel-size {}",
                      e.num_experts, l.expert_model_parallel_size);
  }
  if (e.moe_ffn_hidden_size % l.expert_tensor_parallel_size != 0) {
    throw ConfigError(
        "--moe-ffn-hidden-size {} is not a multiple of --expert-tensor-parallel-size {}",
        e.moe_ffn_hidden_size, l.expert_tensor_parallel_size);
  }
  // Throws if the experts' grid does not fit.
  const std::int64_t data = parallel_grids(l).expert_sizes().data;
  if (has_expert_grid(l) && data % l.num_distributed_optimizer_instances != 0) {
    throw ConfigError(
        "--num-distributed-optimizer-instances {} does not divide the {} data-parallel ranks of an "
        "expert (--expert-model-parallel-size {}, --expert-tensor-parallel-size {})",
        l.num_distributed_optimizer_instances, data, l.expert_model_parallel_size,
        l.expert_tensor_parallel_size);
  }
  if (tensor > 1 && !c.layout.sequence_parallel) {
    throw ConfigError(
        "--num-experts {} with --tensor-model-parallel-size {} needs --sequence-parallel: each of "
        "these ranks gives experts the rows of its own part of the sequence",
        e.num_experts, tensor);
  }
}

}  // namespace

void resolve_experts(TrainConfig& c) {
  ExpertConfig& e = c.experts;
  if (e.num_experts == 0) {
    const std::vector<nn::RouterLoss> losses = router_losses(e);
    if (!losses.empty()) {
      throw ConfigError("--moe-aux-loss-coeff {} needs --num-experts", losses[0].coefficient);
    }
    LayoutConfig& l = c.layout;
    if (l.expert_model_parallel_size > 1 || l.expert_tensor_parallel_size > 1) {
      throw ConfigError("--expert-{}-parallel-size needs --num-experts",
                        l.expert_model_parallel_size > 1 ? "model" : "tensor");
    }
    l.expert_tensor_parallel_size = 0;
    e = {};
    return;
  }
  if (c.layout.expert_tensor_parallel_size == 0) {
    c.layout.expert_tensor_parallel_size = c.layout.tensor_model_parallel_size;
  }
  if (e.moe_ffn_hidden_size == 0) e.moe_ffn_hidden_size = c.model.ffn_hidden_size;
  check_router(e);
  check_sinkhorn(e);
  check_groups(e);
  check_dispatch(e);
  expert_layers_from_text(e.moe_layer_freq, c.model.num_layers);  // throws if it is malformed
  router_losses(e);
}

void resolve_upcycling(TrainConfig& c, bool for_training) {
  const ExpertConfig& e = c.experts;
  RunConfig& run = c.run;
  if (!run.moe_use_upcycling) return;
  const std::int64_t granularity = run.moe_upcycling_granularity;
  if (e.num_experts % granularity != 0) {
    throw ConfigError(
        "--num-experts {} is not a multiple of --moe-upcycling-granularity {}: as many experts are "
        "the parts of one dense MLP",
        e.num_experts, granularity);
  }
  if (e.moe_router_topk % granularity != 0) {
    throw ConfigError(
        "--moe-router-topk {} is not a multiple of --moe-upcycling-granularity {}: a token needs "
        "all parts of a dense MLP",
        e.moe_router_topk, granularity);
  }
  if (!for_training) return;
  if (run.load.empty() && run.pretrained_checkpoint.empty()) {
    throw ConfigError(
        "--moe-use-upcycling needs --load or --pretrained-checkpoint: the checkpoint of a dense "
        "model");
  }
  if (run.save.empty()) throw ConfigError("--moe-use-upcycling needs --save, for the new model");
  // With the latter the run begins so where --load has nothing.
  if (!run.pretrained_checkpoint.empty()) return;
  run.finetune = true;
  run.exit_on_missing_checkpoint = true;
}

void check_experts(const TrainConfig& c) {
  const ExpertConfig& e = c.experts;
  if (e.num_experts == 0) return;
  if (c.lora.rank > 0) {
    throw ConfigError(
        "--num-experts {} and --lora-rank {} exclude each other: experts have no adapters in this "
        "version of Phalanx; train all weights, or some by --trainable",
        e.num_experts, c.lora.rank);
  }
  check_ranks(c);
  check_shared_expert(c);
  check_counts_of_a_step(c);
  if (is_asynchronous(c.layout) && c.optimizer.loss_average == "token" &&
      !router_losses(e).empty()) {
    throw ConfigError(
        "--pipeline-schedule {}: with losses of routers the counts of a whole global batch divide "
        "the gradients of each microbatch, and this schedule updates in between. Give "
        "--loss-average microbatch or --moe-aux-loss-coeff 0, or another schedule",
        c.layout.pipeline_schedule);
  }
}

}  // namespace phalanx
