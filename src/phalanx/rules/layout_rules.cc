// The part of resolve() that is about ranks and what is recomputed; the batch is in batch_rules.cc,
// pipelines are in pipeline_rules.cc.

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/disk_rates.h"

namespace phalanx {
namespace {

// More is a typing error. The product of three sizes up to this fits into 64 bits.
constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;

void resolve_threads(LayoutConfig& l) {
  if (l.threads_per_rank > 0 && !l.threads_reason.empty()) return;
  const std::int64_t ranks = ranks_on_machine(l);
  if (l.threads_per_rank == 0) {
    const UsableCores threads = default_threads(ranks);
    l.threads_per_rank = threads.count;
    l.threads_reason = threads.reason;
    return;
  }
  const UsableCores cores = usable_cores();
  if (l.threads_per_rank > cores.count / ranks) {
    l.threads_reason = fmt::format("as given; usable: {}", cores.reason);
  }
}

}  // namespace

void check_offload(const LayoutConfig& l) {
  constexpr std::int64_t kAlignment = 4096;  // of blocks that bypass the page cache
  if (l.aio_block_size % kAlignment != 0) {
    throw ConfigError("--aio-block-size {} is not a multiple of {}", l.aio_block_size, kAlignment);
  }
  disk_rates(l);
}

void resolve_ranks(TrainConfig& c) {
  LayoutConfig& l = c.layout;
  if (l.world_size < 1 || l.world_size > kMostRanks) {
    throw ConfigError("--nproc (--world-size of a plan) {} must be from 1 to {}", l.world_size,
                      kMostRanks);
  }
  const std::int64_t model_ranks = ranks_of_model(l);
  if (l.world_size % model_ranks != 0) {
    throw ConfigError(
        "{} ranks (--nproc, or --world-size of a plan) are not a multiple of the {} that one copy "
        "of the model takes: --tensor-model-parallel-size {} x --pipeline-model-parallel-size {} x "
        "--context-parallel-size {}",
        l.world_size, model_ranks, l.tensor_model_parallel_size, l.pipeline_model_parallel_size,
        l.context_parallel_size);
  }
  resolve_threads(l);
}

// Sizes that tensor parallelism cuts must be divisible by its size.
void resolve_tensor_parallelism(TrainConfig& c) {
  LayoutConfig& l = c.layout;
  const std::int64_t size = l.tensor_model_parallel_size;
  const auto require_even = [size](std::string_view flag, std::int64_t value) {
    if (value % size == 0) return;
    throw ConfigError("{} {} is not a multiple of --tensor-model-parallel-size {}", flag, value,
                      size);
  };
  require_even("--num-attention-heads", c.model.num_attention_heads);
  const std::int64_t groups = c.model.num_query_groups;
  if (groups % size != 0 && size % groups != 0) {
    throw ConfigError(
        "--num-query-groups {} and --tensor-model-parallel-size {}: one must be a multiple of the "
        "other, so that a rank has whole groups or a part of one",
        groups, size);
  }
  require_even("--ffn-hidden-size", c.model.ffn_hidden_size);
  if (l.sequence_parallel && size == 1) {
    log_info("--sequence-parallel is off: --tensor-model-parallel-size is 1");
    l.sequence_parallel = false;
  }
  for (const auto& [flag, length] : {std::pair{"--seq-length", c.data.seq_length},
                                     {"--decoder-seq-length", c.data.decoder_seq_length}}) {
    if (!l.sequence_parallel || length % size == 0) continue;
    throw ConfigError(
        "{} {} is not a multiple of --tensor-model-parallel-size {}: --sequence-parallel cuts it",
        flag, length, size);
  }
}

void resolve_recomputation(TrainConfig& c) {
  LayoutConfig& l = c.layout;
  if (l.recompute_granularity == "full") {
    if (l.recompute_method.empty()) {
      throw ConfigError(
          "--recompute-granularity full needs --recompute-method uniform or --recompute-method "
          "block");
    }
    if (l.recompute_num_layers == 0) l.recompute_num_layers = 1;
    const std::int64_t layers = std::max(c.model.num_layers, c.model.decoder_num_layers);
    if (l.recompute_num_layers > layers) {
      throw ConfigError("--recompute-num-layers {} is above --num-layers {}",
                        l.recompute_num_layers, layers);
    }
  } else if (!l.recompute_method.empty() || l.recompute_num_layers != 0) {
    throw ConfigError(
        "--recompute-method and --recompute-num-layers go with --recompute-granularity full{}",
        l.recompute_granularity.empty() ? "" : ": selective recomputes in every layer");
  }
  if (!l.distribute_saved_activations) return;
  if (l.recompute_granularity != "full") {
    throw ConfigError("--distribute-saved-activations needs --recompute-granularity full");
  }
  if (l.tensor_model_parallel_size == 1) {
    throw ConfigError(
        "--distribute-saved-activations needs --tensor-model-parallel-size above 1: it spreads "
        "them over these ranks");
  }
  if (l.sequence_parallel) {
    throw ConfigError(
        "--distribute-saved-activations and --sequence-parallel exclude each other: with the "
        "second they are spread already");
  }
  for (const auto& [flag, length] : {std::pair{"--seq-length", c.data.seq_length},
                                     {"--decoder-seq-length", c.data.decoder_seq_length}}) {
    const std::int64_t rows = length / l.context_parallel_size;
    const std::int64_t values = l.micro_batch_size * rows * c.model.hidden_size;
    if (values % l.tensor_model_parallel_size == 0) continue;
    throw ConfigError(
        "--distribute-saved-activations: --micro-batch-size {} x {} {} x --hidden-size {} values "
        "cannot be cut into --tensor-model-parallel-size {} equal parts",
        l.micro_batch_size, flag, length, c.model.hidden_size, l.tensor_model_parallel_size);
  }
}

}  // namespace phalanx
