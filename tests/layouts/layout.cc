#include "layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "pairwise.h"
#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::array<std::pair<int, int>, 9> kWorlds = {
    {{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 1}, {2, 2}, {2, 4}, {4, 1}, {4, 2}}};

// The axes, those of the ranks first.
const std::vector<int> kRankAxes = {static_cast<int>(kWorlds.size()), 2, 2, 3, 2, 6, 2};
const std::vector<int> kModelAxes = {2, 2, 5, 2, 2};

void set_ranks(Layout& layout, const int* value) {
  std::tie(layout.tensor, layout.data) = kWorlds[static_cast<std::size_t>(value[0])];
  layout.sequence_parallel = value[1] != 0;
  layout.distributed_optimizer = value[2] != 0;
  layout.overlap = static_cast<Overlap>(value[3]);
  layout.small_buckets = value[4] != 0;
  layout.recompute = static_cast<Recompute>(value[5]);
  layout.async_reduce = value[6] == 0;
}

void set_model(Layout& layout, const int* value) {
  layout.micro_batch = 1 + value[0];
  layout.fused_attention = value[1] == 0;
  layout.storage = static_cast<Storage>(value[2]);
  layout.tied = value[3] == 0;
  layout.mean_of_means = value[4] != 0;
}

std::vector<Layout> nightly_layouts() {
  const IsLegal any = [](const Combination&) { return true; };
  const auto models = pairwise_cover(kModelAxes, any);
  std::vector<Layout> layouts;
  std::size_t next = 0;
  const auto visit = [&](const Combination& ranks) {
    Layout layout;
    set_ranks(layout, ranks.data());
    set_model(layout, models[next++ % models.size()].data());
    if (legal_config(layout)) layouts.push_back(layout);
  };
  for_product(kRankAxes, any, visit);
  return layouts;
}

void set_recomputation(Recompute recompute, TrainConfig& c) {
  if (recompute == Recompute::kNone) return;
  if (recompute == Recompute::kSelective) {
    c.recompute_granularity = "selective";
    return;
  }
  c.recompute_granularity = "full";
  c.recompute_method = recompute == Recompute::kBlock2 ? "block" : "uniform";
  c.recompute_num_layers = recompute == Recompute::kUniform1 ? 1 : 2;
  c.distribute_saved_activations = recompute == Recompute::kDistributed;
}

}  // namespace

std::string name_of(const Layout& l) {
  static constexpr std::array<const char*, 3> kOverlaps = {"", " overlap", " overlap+gather"};
  static constexpr std::array<const char*, 6> kRecomputes = {
      "", " selective", " uniform1", " uniform2", " block2", " distributed"};
  static constexpr std::array<const char*, 5> kStorages = {"fp32", "bf16", "bf16+fp32-residual",
                                                           "fp16", "fp16+fp32-residual"};
  return fmt::format(
      "t{}{} d{}{}{}{}{}{} b{} {} {} {}{}", l.tensor, l.sequence_parallel ? " sp" : "", l.data,
      l.distributed_optimizer ? " zero1" : "", kOverlaps[static_cast<std::size_t>(l.overlap)],
      l.small_buckets ? " small-buckets" : "", kRecomputes[static_cast<std::size_t>(l.recompute)],
      l.async_reduce ? "" : " no-async", l.micro_batch, l.fused_attention ? "fused" : "unfused",
      kStorages[static_cast<std::size_t>(l.storage)], l.tied ? "tied" : "untied",
      l.mean_of_means ? " mean-of-means" : "");
}

Layout on_one_rank(const Layout& layout) {
  return {.micro_batch = layout.micro_batch,
          .fused_attention = layout.fused_attention,
          .storage = layout.storage,
          .tied = layout.tied,
          .mean_of_means = layout.mean_of_means};
}

Layout without_bitwise_features(const Layout& layout) {
  Layout plain = on_one_rank(layout);
  plain.tensor = layout.tensor;
  plain.data = layout.data;
  plain.sequence_parallel = layout.sequence_parallel;
  return plain;
}

TrainConfig config_of(const Layout& layout) {
  TrainConfig c;
  c.num_layers = 3;
  c.hidden_size = 32;
  c.ffn_hidden_size = 96;
  c.num_attention_heads = 4;
  c.max_position_embeddings = 20;
  c.seq_length = 16;
  c.make_vocab_size_divisible_by = 8;
  c.init_method_std = 0.1;
  c.weight_decay = 0.1;
  c.clip_grad = 0.2;
  c.global_batch_size = kGlobalBatch;
  c.threads_per_rank = 1;
  c.micro_batch_size = layout.micro_batch;
  c.untie_embeddings_and_output_weights = !layout.tied;
  c.attention_backend = layout.fused_attention ? "fused" : "unfused";
  c.loss_average = layout.mean_of_means ? "microbatch" : "token";
  c.bf16 = layout.storage == Storage::kBF16 || layout.storage == Storage::kBF16ResidualF32;
  c.fp16 = layout.storage == Storage::kF16 || layout.storage == Storage::kF16ResidualF32;
  c.fp32_residual_connection =
      layout.storage == Storage::kBF16ResidualF32 || layout.storage == Storage::kF16ResidualF32;
  if (c.fp16) c.loss_scale = 1024.0;

  c.world_size = std::int64_t{layout.tensor} * layout.data;
  c.tensor_model_parallel_size = layout.tensor;
  c.sequence_parallel = layout.sequence_parallel;
  c.no_async_tensor_model_parallel_allreduce = !layout.async_reduce;
  c.use_distributed_optimizer = layout.distributed_optimizer;
  c.overlap_grad_reduce = layout.overlap != Overlap::kNone;
  c.overlap_param_gather = layout.overlap == Overlap::kReduceAndGather;
  c.ddp_bucket_size = layout.small_buckets ? 1 : 0;
  set_recomputation(layout.recompute, c);
  return c;
}

std::optional<TrainConfig> legal_config(const Layout& layout) {
  // What means nothing on one rank of a group is not a layout of its own.
  if (layout.tensor == 1 && (layout.sequence_parallel || !layout.async_reduce)) return {};
  TrainConfig config = config_of(layout);
  try {
    resolve(config, false);
  } catch (const ConfigError&) {
    return {};
  }
  return config;
}

std::vector<Layout> covering_layouts() {
  std::vector<int> axes = kRankAxes;
  axes.insert(axes.end(), kModelAxes.begin(), kModelAxes.end());
  const auto layout_of = [](const Combination& values) {
    Layout layout;
    set_ranks(layout, values.data());
    set_model(layout, values.data() + kRankAxes.size());
    return layout;
  };
  std::vector<Layout> layouts;
  const auto is_legal = [&](const Combination& values) {
    return legal_config(layout_of(values)).has_value();
  };
  for (const auto& values : pairwise_cover(axes, is_legal)) layouts.push_back(layout_of(values));
  return layouts;
}

std::vector<Layout> layouts_of_world(int tensor, int data, bool nightly) {
  std::vector<Layout> layouts = nightly ? nightly_layouts() : covering_layouts();
  std::erase_if(layouts, [&](const Layout& layout) {
    return layout.tensor != tensor || layout.data != data;
  });
  return layouts;
}

}  // namespace phalanx
