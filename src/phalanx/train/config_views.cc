// The views of a resolved configuration; resolve() is in config.cc.

#include "phalanx/train/config.h"

namespace phalanx {
namespace {

DType parameter_dtype(const TrainConfig& c) {
  if (c.fp16) return DType::kF16;
  return c.bf16 ? DType::kBF16 : DType::kF32;
}

RecomputePlan recompute_plan(const TrainConfig& c) {
  // Selective recomputation is within the attention of a layer: the layers' own business.
  if (c.recompute_granularity != "full") return {};
  return {.method = c.recompute_method == "uniform" ? RecomputePlan::Method::kUniform
                                                    : RecomputePlan::Method::kBlock,
          .num_layers = c.recompute_num_layers,
          .input_shards =
              c.distribute_saved_activations ? static_cast<int>(c.tensor_model_parallel_size) : 1};
}

}  // namespace

std::int64_t data_parallel_size(const TrainConfig& c) {
  return c.world_size /
         (c.tensor_model_parallel_size * c.pipeline_model_parallel_size * c.context_parallel_size);
}

RankGrid rank_grid(const TrainConfig& c) {
  return RankGrid({.tensor = static_cast<int>(c.tensor_model_parallel_size),
                   .context = static_cast<int>(c.context_parallel_size),
                   .data = static_cast<int>(data_parallel_size(c)),
                   .pipeline = static_cast<int>(c.pipeline_model_parallel_size)},
                  c.use_tp_pp_dp_mapping ? kDataOutermostOrder : kDefaultOrder);
}

bool is_asynchronous(const TrainConfig& c) {
  return schedule_kind(c.pipeline_schedule).update != UpdateRule::kFlush;
}

ScheduleRequest schedule_request(const TrainConfig& c, std::int64_t microbatches) {
  return {.ranks = static_cast<int>(c.pipeline_model_parallel_size),
          .microbatches = static_cast<int>(microbatches),
          .chunks = static_cast<int>(c.num_virtual_stages_per_pipeline_rank),
          .group_size = static_cast<int>(c.microbatch_group_size_per_virtual_pipeline_stage),
          .microbatches_per_update = static_cast<int>(num_microbatches(c)),
          .costs = {},
          .memory_limit = std::nullopt};
}

std::vector<std::int64_t> stage_layers(const TrainConfig& c, const Placement& placement) {
  const int stages = placement.stages();
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages));
  const std::int64_t first = c.decoder_first_pipeline_num_layers;
  const std::int64_t last = c.decoder_last_pipeline_num_layers;
  const std::int64_t ends = (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
  for (int stage = 0; stage < stages; ++stage) {
    const int rank = placement.rank(stage);
    std::int64_t& of_stage = layers[static_cast<std::size_t>(stage)];
    if (rank == 0 && first > 0) {
      of_stage = first / placement.chunks();
    } else if (rank == placement.ranks() - 1 && last > 0) {
      of_stage = last / placement.chunks();
    } else if (ends > 0) {
      of_stage = (c.num_layers - first - last) / ((placement.ranks() - ends) * placement.chunks());
    } else {
      of_stage = c.num_layers * (stage + 1) / stages - c.num_layers * stage / stages;
    }
  }
  return layers;
}

GptConfig gpt_config(const TrainConfig& c, std::int64_t vocabulary) {
  const auto seed = static_cast<std::uint64_t>(c.seed);
  return {
      .transformer = {.num_layers = c.num_layers,
                      .hidden = c.hidden_size,
                      .ffn_hidden = c.ffn_hidden_size,
                      .heads = c.num_attention_heads,
                      .query_groups = c.num_query_groups,
                      .head_size = c.kv_channels,
                      .norm_epsilon = c.norm_epsilon,
                      .hidden_dropout = c.hidden_dropout,
                      .attention_dropout = c.attention_dropout,
                      .init_deviation = c.init_method_std,
                      .gelu = c.no_bias_gelu_fusion ? ops::Gelu::kErf : ops::Gelu::kTanh,
                      .attention = c.attention_backend == "fused" ? nn::AttentionKernel::kFused
                                                                  : nn::AttentionKernel::kUnfused,
                      .causal = true,
                      .mask_documents = c.reset_attention_mask,
                      .dtype = parameter_dtype(c),
                      .fp32_residual = c.fp32_residual_connection,
                      .recompute_core_attention = c.recompute_granularity == "selective",
                      .tensor = {.rank = 0,
                                 .size = static_cast<int>(c.tensor_model_parallel_size),
                                 .sequence = c.sequence_parallel,
                                 .async_reduce = !c.no_async_tensor_model_parallel_allreduce},
                      .init_key = random_key(seed, RandomPurpose::kInitialisation),
                      .dropout_key = random_key(seed, RandomPurpose::kDropout)},
      .vocabulary = vocabulary,
      .padded_vocabulary = padded_vocabulary(vocabulary, c.make_vocab_size_divisible_by,
                                             c.tensor_model_parallel_size),
      .max_positions = c.max_position_embeddings,
      .tied_embedding = !c.untie_embeddings_and_output_weights,
      .recompute = recompute_plan(c)};
}

LossScaler loss_scaler(const TrainConfig& c) {
  if (c.loss_scale) return LossScaler::constant(*c.loss_scale);
  if (!c.fp16) return LossScaler::constant(1.0);
  return LossScaler::dynamic({.initial = c.initial_loss_scale,
                              .minimum = c.min_loss_scale,
                              .window = c.loss_scale_window,
                              .hysteresis = c.hysteresis});
}

AdamSettings adam_settings(const TrainConfig& c) {
  return {.beta1 = c.adam_beta1,
          .beta2 = c.adam_beta2,
          .epsilon = c.adam_eps,
          .clip_grad = c.clip_grad,
          .count_zeros = c.log_num_zeros_in_grad};
}

ParameterSchedule parameter_schedule(const TrainConfig& c) {
  const bool by_samples = c.train_samples > 0;
  const std::int64_t batch = c.global_batch_size;
  const std::int64_t total = by_samples ? c.train_samples : c.train_iters * batch;
  const std::int64_t given_decay = by_samples ? c.lr_decay_samples : c.lr_decay_iters * batch;
  ParameterSchedule schedule{
      .max_lr = *c.lr,
      .min_lr = c.min_lr,
      .warmup_init_lr = c.lr_warmup_init,
      .warmup_samples = 0.0,
      .decay_samples = given_decay > 0 ? given_decay : total,
      .decay_style = *decay_style_from_name(c.lr_decay_style),
      .start_weight_decay = *c.start_weight_decay,
      .end_weight_decay = *c.end_weight_decay,
      .weight_decay_samples = total,
      .weight_decay_style = *weight_decay_style_from_name(c.weight_decay_incr_style)};
  if (c.lr_warmup_fraction) {
    schedule.warmup_samples = *c.lr_warmup_fraction * static_cast<double>(schedule.decay_samples);
  } else {
    schedule.warmup_samples =
        static_cast<double>(by_samples ? c.lr_warmup_samples : c.lr_warmup_iters * batch);
  }
  return schedule;
}

std::int64_t num_microbatches(const TrainConfig& c) {
  return c.global_batch_size / (c.micro_batch_size * data_parallel_size(c));
}

}  // namespace phalanx
