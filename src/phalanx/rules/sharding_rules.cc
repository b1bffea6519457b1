// The part of resolve() that is about what data-parallel ranks share.

#include <algorithm>
#include <array>
#include <string_view>

#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr std::array<std::string_view, 4> kStrategies = {"no_shard", "optim", "optim_grads",
                                                         "optim_grads_params"};

// Refuses flags about something that the run does not do.
void refuse_idle(const LayoutConfig& l) {
  const LayoutConfig plain;
  const auto refuse = [&](bool given, std::string_view flag, std::string_view needs) {
    if (given) throw ConfigError("{} needs {}", flag, needs);
  };
  constexpr std::string_view kStage3 = "--zero-stage 3";
  if (l.zero_stage < 3) {
    refuse(l.no_zero_reshard_after_forward, "--no-zero-reshard-after-forward", kStage3);
    refuse(l.zero_prefetch_depth != plain.zero_prefetch_depth, "--zero-prefetch-depth", kStage3);
    refuse(l.zero_persistence_threshold != plain.zero_persistence_threshold,
           "--zero-persistence-threshold", kStage3);
  }
  if (l.zero_stage < 2) {
    refuse(l.zero_accumulate_unsharded, "--zero-accumulate-unsharded",
           "--zero-stage 2 or --zero-stage 3");
  }
  if (l.zero_stage < 1) {
    refuse(l.num_distributed_optimizer_instances > 1, "--num-distributed-optimizer-instances",
           "--zero-stage 1 (--use-distributed-optimizer) or more");
  }
}

void check_files(const LayoutConfig& l) {
  if (!l.offload_parameters_to.empty() && l.zero_stage < 3) {
    throw ConfigError("--offload-parameters-to needs --zero-stage 3, not {}", l.zero_stage);
  }
  if (!l.offload_optimizer_to.empty() && l.num_distributed_optimizer_instances > 1 &&
      l.zero_stage > 1 && !l.zero_accumulate_unsharded) {
    throw ConfigError(
        "--num-distributed-optimizer-instances {} and gradients in files (--offload-optimizer-to, "
        "--zero-stage {}): the copies would have to be summed through the files. Give "
        "--zero-accumulate-unsharded, or one instance",
        l.num_distributed_optimizer_instances, l.zero_stage);
  }
}

}  // namespace

std::int64_t zero_stage(const LayoutConfig& l) {
  const auto named = std::ranges::find(kStrategies, l.data_parallel_sharding_strategy);
  // Parameters in files need at least this sharding.
  std::int64_t stage = l.zero_stage == 0 && !l.offload_parameters_to.empty() ? 3 : l.zero_stage;
  if (named != kStrategies.end()) {
    stage = named - kStrategies.begin();
  } else if (l.use_megatron_fsdp) {
    stage = 3;
  }
  return l.use_distributed_optimizer ? std::max<std::int64_t>(stage, 1) : stage;
}

void resolve_data_parallelism(LayoutConfig& l) {
  l.zero_stage = zero_stage(l);
  l.use_distributed_optimizer = l.zero_stage > 0;
  if (l.overlap_param_gather && !(l.use_distributed_optimizer && l.overlap_grad_reduce)) {
    throw ConfigError(
        "--overlap-param-gather needs --use-distributed-optimizer and --overlap-grad-reduce");
  }
  refuse_idle(l);
  check_files(l);
  const std::int64_t data = data_and_context_size(l);
  if (data % l.num_distributed_optimizer_instances != 0) {
    throw ConfigError(
        "--num-distributed-optimizer-instances {} does not divide the {} data-parallel ranks",
        l.num_distributed_optimizer_instances, data);
  }
  if (l.pipeline_model_parallel_size == 1) return;
  if (l.zero_stage == 3) {
    throw ConfigError(
        "--zero-stage 3 (--offload-parameters-to) and --pipeline-model-parallel-size {}: every "
        "stage would gather its parameters twice for every microbatch, while its neighbours wait. "
        "Give --zero-stage 1, or data parallelism in place of the pipeline",
        l.pipeline_model_parallel_size);
  }
  if (l.zero_stage == 2 && !l.zero_accumulate_unsharded) {
    throw ConfigError(
        "--zero-stage 2 and --pipeline-model-parallel-size {}: the gradients of every microbatch "
        "would be reduced between the messages of the pipeline. Give --zero-accumulate-unsharded "
        "or --zero-stage 1",
        l.pipeline_model_parallel_size);
  }
}

}  // namespace phalanx
