// The views of a resolved configuration; resolve() is in rules/resolve.cc.

#include "phalanx/settings/config_views.h"

#include <cmath>
#include <optional>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/settings/adapter_settings.h"
#include "phalanx/settings/batch_flags.h"
#include "phalanx/settings/expert_views.h"
#include "phalanx/settings/window_text.h"

namespace phalanx {
namespace {

DType parameter_dtype(const TrainConfig& c) {
  if (c.model.fp16) return DType::kF16;
  return c.model.bf16 ? DType::kBF16 : DType::kF32;
}

OptimizerRule optimizer_rule(const OptimizerConfig& c) {
  if (c.optimizer == "sgd") return SgdRule{.momentum = c.sgd_momentum};
  return AdamRule{.beta1 = c.adam_beta1, .beta2 = c.adam_beta2, .epsilon = c.adam_eps};
}

ops::ActivationKind activation(const ModelConfig& m) {
  if (m.activation_func == "silu") return ops::ActivationKind::kSilu;
  if (m.activation_func == "relu") return ops::ActivationKind::kRelu;
  if (m.activation_func == "squaredrelu") return ops::ActivationKind::kSquaredRelu;
  return m.no_bias_gelu_fusion ? ops::ActivationKind::kGeluErf : ops::ActivationKind::kGeluTanh;
}

std::optional<ops::Rotary> rotary(const ModelConfig& m) {
  if (m.position_embedding_type != "rope") return std::nullopt;
  ops::Rotary r{.dimensions = rotary_dimensions(m),
                .base = m.rotary_base,
                .interleaved = m.rotary_interleaved,
                .interpolation = m.rotary_seq_len_interpolation_factor};
  const bool is_yarn = m.rope_type == "yarn";
  if (!is_yarn && !m.use_rope_scaling) return r;
  r.scaling = is_yarn ? ops::Rotary::Scaling::kYarn : ops::Rotary::Scaling::kLlama3;
  r.factor = m.rope_scaling_factor;
  r.original_positions = static_cast<double>(m.rope_original_max_positions);
  if (!is_yarn) {
    r.low_frequency = m.rope_low_freq_factor;
    r.high_frequency = m.rope_high_freq_factor;
    return r;
  }
  r.beta_fast = m.yarn_beta_fast;
  r.beta_slow = m.yarn_beta_slow;
  r.truncate = !m.yarn_no_truncate;
  if (m.yarn_attention_factor > 0.0) {
    r.attention_factor = m.yarn_attention_factor;
  } else if (r.factor > 1.0) {
    r.attention_factor = 0.1 * std::log(r.factor) + 1.0;
  }
  return r;
}

ContextExchange context_exchange(std::string_view name) {
  if (name == "a2a") return ContextExchange::kHeads;
  if (name == "a2a+p2p") return ContextExchange::kHeadsAndRing;
  return name == "p2p" ? ContextExchange::kRing : ContextExchange::kGather;
}

std::string_view rank_order(const LayoutConfig& c) {
  return c.use_tp_pp_dp_mapping ? kDataOutermostOrder : kDefaultOrder;
}

}  // namespace

bool has_decoder(const ModelConfig& m) { return m.decoder_num_layers > 0; }

std::int64_t ranks_of_model(const LayoutConfig& c) {
  return c.tensor_model_parallel_size *
         (c.encoder_pipeline_model_parallel_size + c.pipeline_model_parallel_size) *
         c.context_parallel_size;
}

std::int64_t data_parallel_size(const LayoutConfig& c) { return c.world_size / ranks_of_model(c); }

ContextCut context_cut(const LayoutConfig& c) {
  return ContextCut(static_cast<int>(c.context_parallel_size), c.context_parallel_cut == "documents"
                                                                   ? ContextCut::Kind::kDocuments
                                                                   : ContextCut::Kind::kSequence);
}

ContextParallel context_parallel(const LayoutConfig& c) {
  ContextParallel context{.size = static_cast<int>(c.context_parallel_size),
                          .in_chunks = context_cut(c).kind() == ContextCut::Kind::kSequence};
  if (!context.is_parallel()) return context;
  for (const std::string& name : c.cp_comm_type) {
    context.exchanges.push_back(context_exchange(name));
  }
  if (!c.hierarchical_context_parallel_sizes.empty()) {
    context.inner = static_cast<int>(c.hierarchical_context_parallel_sizes.front());
  }
  return context;
}

std::int64_t data_and_context_size(const LayoutConfig& c) {
  return data_parallel_size(c) * c.context_parallel_size;
}

std::int64_t ranks_on_machine(const LayoutConfig& layout) {
  return layout.local_size > 0 ? layout.local_size : layout.world_size;
}

RankGrid rank_grid(const LayoutConfig& c) {
  return RankGrid({.tensor = static_cast<int>(c.tensor_model_parallel_size),
                   .context = static_cast<int>(c.context_parallel_size),
                   .data = static_cast<int>(data_parallel_size(c)),
                   .pipeline = static_cast<int>(c.pipeline_model_parallel_size)},
                  rank_order(c));
}

bool has_expert_grid(const LayoutConfig& c) {
  const std::int64_t tensor = c.expert_tensor_parallel_size;
  return c.expert_model_parallel_size > 1 || (tensor > 0 && tensor != c.tensor_model_parallel_size);
}

ParallelGrids parallel_grids(const LayoutConfig& c) {
  ParallelGrids grids{.dense = rank_grid(c)};
  if (!has_expert_grid(c)) return grids;
  grids.expert = parallel_grids({.world = c.world_size,
                                 .tensor = c.tensor_model_parallel_size,
                                 .pipeline = c.pipeline_model_parallel_size,
                                 .context = c.context_parallel_size,
                                 .expert = c.expert_model_parallel_size,
                                 .expert_tensor = c.expert_tensor_parallel_size},
                                rank_order(c))
                     .expert;
  return grids;
}

std::int64_t document_multiple(const LayoutConfig& c) {
  const bool is_cut = c.context_parallel_size > 1 && c.context_parallel_cut == "documents";
  return is_cut ? 2 * c.context_parallel_size : 1;
}

bool is_asynchronous(const LayoutConfig& c) {
  return schedule_kind(c.pipeline_schedule).update != UpdateRule::kFlush;
}

ScheduleRequest schedule_request(const LayoutConfig& c, std::int64_t microbatches, int iterations) {
  return {.ranks = static_cast<int>(c.pipeline_model_parallel_size),
          .microbatches = static_cast<int>(microbatches * iterations),
          .chunks = static_cast<int>(c.num_virtual_stages_per_pipeline_rank),
          // With one stage, it has both stacks, whatever the flags say.
          .split = c.pipeline_model_parallel_size == 1
                       ? 0
                       : static_cast<int>(c.pipeline_model_parallel_split_rank),
          .group_size = static_cast<int>(c.microbatch_group_size_per_virtual_pipeline_stage),
          .microbatches_per_update = static_cast<int>(microbatches),
          .costs = {},
          .memory_limit = std::nullopt};
}

std::int64_t updates_per_iteration(const LayoutConfig& c, std::int64_t microbatches) {
  const UpdateRule rule = schedule_kind(c.pipeline_schedule).update;
  return rule == UpdateRule::kPerMicrobatch ? microbatches : 1;
}

std::vector<std::int64_t> stage_layers(const TrainConfig& c, const Placement& placement) {
  const int stages = placement.stages();
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages));
  const std::int64_t first = c.layout.decoder_first_pipeline_num_layers;
  const std::int64_t last = c.layout.decoder_last_pipeline_num_layers;
  const int alone = c.layout.standalone_embedding_stage ? 1 : 0;  // stages without layers
  const std::int64_t ends = (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
  for (int stage = alone; stage < stages; ++stage) {
    const int rank = placement.rank(stage);
    std::int64_t& of_stage = layers[static_cast<std::size_t>(stage)];
    if (rank == 0 && first > 0) {
      of_stage = first / placement.chunks();
    } else if (rank == placement.ranks() - 1 && last > 0) {
      of_stage = last / placement.chunks();
    } else if (ends > 0) {
      of_stage = (c.model.num_layers - first - last) /
                 ((placement.ranks() - alone - ends) * placement.chunks());
    } else {
      of_stage = c.model.num_layers * (stage - alone + 1) / (stages - alone) -
                 c.model.num_layers * (stage - alone) / (stages - alone);
    }
  }
  return layers;
}

std::vector<StageRange> stage_ranges(const TrainConfig& c, const Placement& placement) {
  if (!has_decoder(c.model)) return one_stack_stages(stage_layers(c, placement));
  return encoder_decoder_stages(
      {.encoder_layers = c.model.num_layers,
       .decoder_layers = c.model.decoder_num_layers,
       .stages = placement.stages(),
       .split = static_cast<int>(c.layout.pipeline_model_parallel_split_rank),
       .standalone_embedding = c.layout.standalone_embedding_stage});
}

RecomputePlan recompute_plan(const TrainConfig& c) {
  // Selective recomputation happens inside attention, so the layers do it themselves.
  if (c.layout.recompute_granularity != "full") return {};
  return {.method = c.layout.recompute_method == "uniform" ? RecomputePlan::Method::kUniform
                                                           : RecomputePlan::Method::kBlock,
          .num_layers = c.layout.recompute_num_layers,
          .input_shards = c.layout.distribute_saved_activations
                              ? static_cast<int>(c.layout.tensor_model_parallel_size)
                              : 1};
}

std::int64_t rotary_dimensions(const ModelConfig& m) {
  return static_cast<std::int64_t>(static_cast<double>(m.kv_channels) * m.rotary_percent);
}

nn::TransformerConfig transformer_config(const TrainConfig& c) {
  const auto seed = static_cast<std::uint64_t>(c.run.seed);
  return {
      .num_layers = c.model.num_layers,
      .hidden = c.model.hidden_size,
      .ffn_hidden = c.model.ffn_hidden_size,
      .heads = c.model.num_attention_heads,
      .query_groups = c.model.num_query_groups,
      .head_size = c.model.kv_channels,
      .norm =
          c.model.normalization == "RMSNorm" ? nn::NormKind::kRmsNorm : nn::NormKind::kLayerNorm,
      .norm_zero_centred = c.model.apply_layernorm_1p,
      .norm_epsilon = c.model.norm_epsilon,
      .hidden_dropout = c.model.hidden_dropout,
      .attention_dropout = c.model.attention_dropout,
      .init_deviation = c.model.init_method_std,
      .activation = activation(c.model),
      .gated = c.model.gated_linear_unit,
      .linear_bias = !c.model.disable_bias_linear,
      .qkv_bias = !c.model.disable_bias_linear || c.model.add_qkv_bias,
      .qk_norm = c.model.qk_layernorm,
      .attention = c.model.attention_backend == "fused" ? nn::AttentionKernel::kFused
                                                        : nn::AttentionKernel::kUnfused,
      .rotary = rotary(c.model),
      .attention_scale =
          c.model.attention_scale > 0.0 ? std::optional(c.model.attention_scale) : std::nullopt,
      .window = window_from_text(c.model.window_size),
      .window_layers = window_layers_from_text(c.model.window_attn_skip_freq, c.model.num_layers),
      .dtype = parameter_dtype(c),
      .fp32_residual = c.model.fp32_residual_connection,
      .recompute_core_attention = c.layout.recompute_granularity == "selective",
      .tensor = {.rank = 0,
                 .size = static_cast<int>(c.layout.tensor_model_parallel_size),
                 .sequence = c.layout.sequence_parallel,
                 .async_reduce = !c.layout.no_async_tensor_model_parallel_allreduce},
      .context = context_parallel(c.layout),
      .experts = expert_settings(c),
      .adapters = adapter_settings(c.lora, c.model),
      .init_key = random_key(seed, RandomPurpose::kInitialisation),
      .dropout_key = random_key(seed, RandomPurpose::kDropout)};
}

std::int64_t model_vocabulary(const TrainConfig& c, std::int64_t tokenizer_size) {
  const std::int64_t given = c.model.model_vocab_size;
  if (given == 0) return tokenizer_size;
  if (given < tokenizer_size) {
    throw ConfigError(
        "--model-vocab-size {} is below the tokenizer's {} ids: give at least as many, or another "
        "tokenizer",
        given, tokenizer_size);
  }
  return given;
}

std::int64_t padded_vocabulary(const TrainConfig& c, std::int64_t vocabulary) {
  return padded_vocabulary(vocabulary, c.model.make_vocab_size_divisible_by,
                           c.layout.tensor_model_parallel_size);
}

bool packs_documents(const DataConfig& data) {
  return data.sft || data.pack_documents != "wrapped";
}

bool separates_documents(const DataConfig& data) {
  return data.reset_attention_mask || packs_documents(data);
}

GptConfig gpt_config(const TrainConfig& c, std::int64_t tokenizer_size) {
  const std::int64_t vocabulary = model_vocabulary(c, tokenizer_size);
  GptConfig config{.transformer = transformer_config(c),
                   .vocabulary = vocabulary,
                   .padded_vocabulary = padded_vocabulary(c, vocabulary),
                   .max_positions = c.model.max_position_embeddings,
                   .position_table = c.model.position_embedding_type == "learned_absolute",
                   .tied_embedding = !c.model.untie_embeddings_and_output_weights,
                   .recompute = recompute_plan(c)};
  config.transformer.mask_documents = separates_documents(c.data);
  return config;
}

bool checks_for_nan(const TrainConfig& c) {
  return !c.run.no_check_for_nan_in_loss_and_grad && !c.model.fp16 && !c.optimizer.loss_scale;
}

std::int64_t answer_interval(const RunConfig& run) {
  if (run.answer_prompts.empty()) return 0;
  return run.answer_interval > 0 ? run.answer_interval : run.eval_interval;
}

std::vector<std::int64_t> iterations_to_skip(const RunConfig& run) {
  std::vector<std::int64_t> iterations;
  for (const std::string& word : run.iterations_to_skip) {
    const auto iteration = parse_number<std::int64_t>(word);
    if (!iteration || *iteration < 1) {
      throw ConfigError(
          "--iterations-to-skip {}: not the number of an iteration; the first one is 1, as the log "
          "counts them, and several stand between blanks",
          word);
    }
    iterations.push_back(*iteration);
  }
  return iterations;
}

LossScaler loss_scaler(const TrainConfig& c) {
  if (c.optimizer.loss_scale) return LossScaler::constant(*c.optimizer.loss_scale);
  if (!c.model.fp16) return LossScaler::constant(1.0);
  return LossScaler::dynamic({.initial = c.optimizer.initial_loss_scale,
                              .minimum = c.optimizer.min_loss_scale,
                              .window = c.optimizer.loss_scale_window,
                              .hysteresis = c.optimizer.hysteresis});
}

OptimizerSettings optimizer_settings(const OptimizerConfig& c) {
  return {
      .rule = optimizer_rule(c), .clip_grad = c.clip_grad, .count_zeros = c.log_num_zeros_in_grad};
}

std::int64_t samples_per_microbatch(const LayoutConfig& c) {
  return c.micro_batch_size * data_parallel_size(c);
}

std::int64_t num_microbatches(const LayoutConfig& c, std::int64_t global_batch) {
  return global_batch / samples_per_microbatch(c);
}

std::int64_t num_microbatches(const LayoutConfig& c) {
  return num_microbatches(c, c.global_batch_size);
}

BatchSchedule batch_schedule(const TrainConfig& c) {
  if (!c.layout.decrease_batch_size_if_needed) return given_batches(c);
  return given_batches(c).rounded_down(samples_per_microbatch(c.layout));
}

}  // namespace phalanx
