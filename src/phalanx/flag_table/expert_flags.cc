// Mixtures of experts.

#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

using enum ResumeClass;

constexpr FlagRange kSize = from_to(0, kMostInt32);

constexpr FlagSpec of_experts(FlagSpec spec) {
  spec.needs = "--num-experts";
  return spec;
}

constexpr TrainFlag kExpertRows[] = {
    of_families("gpt", works<&ExpertConfig::num_experts>(
                           kExperts, "--num-experts",
                           "MLPs of a layer, of which a router chooses some for each token (0: "
                           "one MLP for all tokens)",
                           {.yaml_keys = "num_moe_experts", .range = kSize, .resume = kShape})),
    of_families("gpt",
                works<&ExpertConfig::moe_layer_freq>(
                    kExperts, "--moe-layer-freq",
                    "Layers with experts: each N-th from the first, or those with 1 in a list "
                    "([0]*2+[1]*3)",
                    of_experts({.value_name = "N", .resume = kShape}))),
    of_families("gpt",
                works<&ExpertConfig::moe_ffn_hidden_size>(
                    kExperts, "--moe-ffn-hidden-size", "Width of an expert (0: --ffn-hidden-size)",
                    of_experts({.range = kSize, .resume = kShape}))),
    of_families("gpt", works<&ExpertConfig::moe_router_topk>(
                           kExperts, "--moe-router-topk", "Experts of a token",
                           of_experts({.range = from_to(1, kMostInt32), .resume = kFixed}))),
    of_families(
        "gpt",
        works<&ExpertConfig::moe_router_score_function>(
            kExperts, "--moe-router-score-function", "What makes scores of the router's logits",
            of_experts({.choices = "softmax sigmoid sqrtsoftplus", .resume = kFixed}))),
    of_families("gpt", works<&ExpertConfig::moe_router_pre_softmax>(
                           kExperts, "--moe-router-pre-softmax",
                           "Probabilities are the softmax over all experts, not over the chosen",
                           of_experts({.resume = kFixed}))),
    of_families("gpt", works<&ExpertConfig::moe_router_num_groups>(
                           kExperts, "--moe-router-num-groups",
                           "Groups of experts, of which a token has some (0: none)",
                           of_experts({.range = kSize, .resume = kFixed}))),
    of_families("gpt", works<&ExpertConfig::moe_router_group_topk>(
                           kExperts, "--moe-router-group-topk", "Groups of a token",
                           of_experts({.range = kSize, .resume = kFixed}))),
    of_families("gpt", works<&ExpertConfig::moe_router_group_score>(
                           kOwn, "--moe-router-group-score",
                           "Score of a group: the sum of its best N scores, its maximum, or auto: "
                           "N is --moe-router-topk over --moe-router-group-topk",
                           of_experts({.value_name = "auto|max|N", .resume = kFixed}))),
    of_families("gpt", works<&ExpertConfig::moe_router_topk_scaling_factor>(
                           kExperts, "--moe-router-topk-scaling-factor",
                           "Of the probabilities, after everything else (0: none)",
                           of_experts({.range = at_least(0), .resume = kFixed}))),
    of_families("gpt",
                works<&ExpertConfig::moe_router_enable_expert_bias>(
                    kExperts, "--moe-router-enable-expert-bias",
                    "Experts are chosen by their scores plus a bias, which every step raises "
                    "for experts with few tokens and lowers for others",
                    of_experts({.resume = kFixed}))),
    of_families(
        "gpt",
        works<&ExpertConfig::moe_router_bias_update_rate>(
            kExperts, "--moe-router-bias-update-rate",
            "How much a step changes the bias of an expert",
            {.range = at_least(0), .needs = "--moe-router-enable-expert-bias", .resume = kWarned})),
    of_families("gpt",
                works<&ExpertConfig::moe_input_jitter_eps>(
                    kExperts, "--moe-input-jitter-eps",
                    "Training multiplies the router's input by factors between 1 minus and 1 plus "
                    "this (0: none)",
                    of_experts({.range = share_below_one(), .resume = kWarned}))),
    of_families("gpt", works<&ExpertConfig::moe_router_force_load_balancing>(
                           kExperts, "--moe-router-force-load-balancing",
                           "Tokens get experts in turn, whatever their scores: equal work for all, "
                           "for benchmarks",
                           of_experts({.resume = kWarned}))),
    of_families("gpt", works<&ExpertConfig::moe_router_load_balancing_type>(
                           kExperts, "--moe-router-load-balancing-type",
                           "What makes the router use all experts: aux_loss of a microbatch, "
                           "seq_aux_loss of each sequence, global_aux_loss of all ranks' tokens of "
                           "a step, several of these, sinkhorn, or none",
                           of_experts({.value_name = "TYPE", .resume = kWarned}))),
    of_families("gpt", works<&ExpertConfig::moe_aux_loss_coeff>(
                           kExperts, "--moe-aux-loss-coeff",
                           "Coefficient of each of --moe-router-load-balancing-type",
                           {.value_name = "X", .resume = kWarned})),
    of_families("gpt", works<&ExpertConfig::moe_z_loss_coeff>(
                           kExperts, "--moe-z-loss-coeff",
                           "Coefficient of the loss that keeps the router's logits small",
                           of_experts({.range = at_least(0), .resume = kWarned}))),
    of_families("gpt", works<&ExpertConfig::moe_expert_capacity_factor>(
                           kExperts, "--moe-expert-capacity-factor",
                           "An expert computes at most this times an equal share of a rank's "
                           "tokens, and drops others (0 or less: no token is dropped)",
                           of_experts({.resume = kFixed}))),
    of_families("gpt", works<&ExpertConfig::moe_token_drop_policy>(
                           kExperts, "--moe-token-drop-policy",
                           "Which tokens an expert keeps: the most probable, or the first",
                           of_experts({.choices = "probs position", .resume = kFixed}))),
    of_families("gpt", works<&ExpertConfig::moe_pad_expert_input_to_capacity>(
                           kExperts, "--moe-pad-expert-input-to-capacity",
                           "Every expert computes as many rows of each rank as its capacity: sizes "
                           "do not depend on the tokens",
                           {.needs = "--moe-expert-capacity-factor", .resume = kFixed})),
    of_families("gpt", works<&ExpertConfig::moe_token_dispatcher_type>(
                           kExperts, "--moe-token-dispatcher-type",
                           "How tokens get to the ranks of their experts: all tokens to all ranks, "
                           "or each to the ranks of its experts (flex: as alltoall)",
                           of_experts({.choices = "allgather alltoall flex"}))),
    of_families("gpt", works<&ExpertConfig::moe_planned_imbalance>(
                           kOwn, "--moe-planned-imbalance",
                           "With alltoall, ranks have memory for this times the rows that they "
                           "would have if all experts had equally many, and compute more in rounds",
                           of_experts({.range = above(0), .resume = kWarned}))),
    of_families("gpt", works<&ExpertConfig::moe_shared_expert_intermediate_size>(
                           kExperts, "--moe-shared-expert-intermediate-size",
                           "Width of an expert that computes all tokens (0: there is none)",
                           of_experts({.range = kSize, .resume = kShape}))),
    of_families("gpt", works<&ExpertConfig::moe_shared_expert_gate>(
                           kExperts, "--moe-shared-expert-gate",
                           "The shared expert's output is multiplied by a sigmoid of its own",
                           {.needs = "--moe-shared-expert-intermediate-size", .resume = kShape})),
    of_families("gpt", works<&RunConfig::moe_use_upcycling>(
                           kExperts, "--moe-use-upcycling",
                           "Begin a new run with the weights of a dense model at --load or "
                           "--pretrained-checkpoint, whose MLPs become experts",
                           of_experts({}))),
    of_families("gpt", works<&RunConfig::moe_upcycling_granularity>(
                           kExperts, "--moe-upcycling-granularity",
                           "Parts of a dense MLP, of which an expert is one",
                           {.range = from_to(1, kMostInt32), .needs = "--moe-use-upcycling"})),
    of_families("gpt", works<&ExpertConfig::moe_per_layer_logging>(
                           kExperts, "--moe-per-layer-logging",
                           "Log how busy the experts of each layer are, not of all layers alone",
                           of_experts({}))),
    of_families("gpt",
                works<&LayoutConfig::expert_model_parallel_size>(
                    kRanks, "--expert-model-parallel-size",
                    "Ranks over which the experts of a layer are shared out, each with as many",
                    {.range = from_to(1, kMostInt32)})),
    of_families("gpt", works<&LayoutConfig::expert_tensor_parallel_size>(
                           kRanks, "--expert-tensor-parallel-size",
                           "Ranks over which each expert is cut (0: --tensor-model-parallel-size)",
                           {.range = kSize})),
};

}  // namespace

std::span<const TrainFlag> expert_flags() { return kExpertRows; }

}  // namespace phalanx
