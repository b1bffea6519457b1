#include "phalanx/train/config.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <thread>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

void require_positive(std::string_view flag, std::int64_t value) {
  if (value <= 0) throw ConfigError("{} must be given and above 0 (it is {})", flag, value);
}

void require_not_negative(std::string_view flag, std::int64_t value) {
  if (value < 0) throw ConfigError("{} must not be negative (it is {})", flag, value);
}

void require_range(std::string_view flag, double value, double low, double high) {
  if (!(value >= low && value < high)) {
    throw ConfigError("{} must be at least {} and below {} (it is {})", flag, low, high, value);
  }
}

void require_one_of(std::string_view flag, const std::string& value,
                    std::initializer_list<std::string_view> allowed) {
  std::string list;
  for (const auto name : allowed) {
    if (value == name) return;
    list += list.empty() ? std::string(name) : ", " + std::string(name);
  }
  throw ConfigError("{} {}: choose one of {}", flag, value, list);
}

void resolve_network(TrainConfig& c) {
  require_positive("--num-layers", c.num_layers);
  require_positive("--hidden-size", c.hidden_size);
  require_positive("--num-attention-heads", c.num_attention_heads);
  require_positive("--seq-length", c.seq_length);
  require_positive("--max-position-embeddings", c.max_position_embeddings);
  require_positive("--make-vocab-size-divisible-by", c.make_vocab_size_divisible_by);
  if (c.max_position_embeddings < c.seq_length) {
    throw ConfigError("--max-position-embeddings {} is below --seq-length {}: raise the first",
                      c.max_position_embeddings, c.seq_length);
  }
  require_not_negative("--ffn-hidden-size", c.ffn_hidden_size);
  if (c.ffn_hidden_size == 0) c.ffn_hidden_size = 4 * c.hidden_size;
  require_not_negative("--kv-channels", c.kv_channels);
  if (c.kv_channels == 0) {
    if (c.hidden_size % c.num_attention_heads != 0) {
      throw ConfigError(
          "--hidden-size {} is not a multiple of --num-attention-heads {}: change one or give "
          "--kv-channels",
          c.hidden_size, c.num_attention_heads);
    }
    c.kv_channels = c.hidden_size / c.num_attention_heads;
  }
  if (!c.group_query_attention) {
    c.num_query_groups = c.num_attention_heads;
  } else if (c.num_query_groups <= 0 || c.num_attention_heads % c.num_query_groups != 0) {
    throw ConfigError("--num-attention-heads {} is not a multiple of --num-query-groups {}",
                      c.num_attention_heads, c.num_query_groups);
  }
  // The dropout coordinates (base/philox.h) give a layer 16 bits and a head 12.
  if (c.num_layers >= kEmbeddingLayer) {
    throw ConfigError("--num-layers {} must be below {}", c.num_layers, kEmbeddingLayer);
  }
  if (c.num_attention_heads > 4096) {
    throw ConfigError("--num-attention-heads {} is above 4096", c.num_attention_heads);
  }
  if (!(c.init_method_std >= 0.0)) {
    throw ConfigError("--init-method-std {} is negative", c.init_method_std);
  }
}

void resolve_regularisation(TrainConfig& c) {
  require_range("--attention-dropout", c.attention_dropout, 0.0, 1.0);
  require_range("--hidden-dropout", c.hidden_dropout, 0.0, 1.0);
  require_range("--adam-beta1", c.adam_beta1, 0.0, 1.0);
  require_range("--adam-beta2", c.adam_beta2, 0.0, 1.0);
  if (!(c.adam_eps > 0.0)) throw ConfigError("--adam-eps {} must be above 0", c.adam_eps);
  if (!(c.clip_grad >= 0.0)) {
    throw ConfigError("--clip-grad {} is negative; 0 turns clipping off", c.clip_grad);
  }
  const auto style = weight_decay_style_from_name(c.weight_decay_incr_style);
  if (!style) {
    throw ConfigError("--weight-decay-incr-style {}: choose one of constant, linear, cosine",
                      c.weight_decay_incr_style);
  }
  if (*style == WeightDecayStyle::kConstant) {
    const auto differs = [&](const std::optional<double>& given) {
      return given && *given != c.weight_decay;
    };
    if (differs(c.start_weight_decay) || differs(c.end_weight_decay)) {
      throw ConfigError(
          "--start-weight-decay and --end-weight-decay need --weight-decay-incr-style linear or "
          "cosine");
    }
    c.start_weight_decay = c.weight_decay;
    c.end_weight_decay = c.weight_decay;
  }
  if (!c.start_weight_decay || !c.end_weight_decay) {
    throw ConfigError(
        "--weight-decay-incr-style {} needs both --start-weight-decay and --end-weight-decay",
        c.weight_decay_incr_style);
  }
  if (*c.start_weight_decay < 0.0 || *c.end_weight_decay < *c.start_weight_decay) {
    throw ConfigError("weight decay from {} to {}: it must be at least 0 and must not fall",
                      *c.start_weight_decay, *c.end_weight_decay);
  }
}

void resolve_batch(TrainConfig& c) {
  require_positive("--micro-batch-size", c.micro_batch_size);
  require_not_negative("--global-batch-size", c.global_batch_size);
  if (c.global_batch_size == 0) c.global_batch_size = c.micro_batch_size;
  if (c.global_batch_size % c.micro_batch_size != 0) {
    throw ConfigError("--global-batch-size {} is not a multiple of --micro-batch-size {}",
                      c.global_batch_size, c.micro_batch_size);
  }
  require_not_negative("--threads-per-rank", c.threads_per_rank);
  if (c.threads_per_rank == 0) {
    c.threads_per_rank = std::max(1U, std::thread::hardware_concurrency());
  }
  if (c.threads_per_rank > 1024) {
    throw ConfigError("--threads-per-rank {} is above 1024", c.threads_per_rank);
  }
  require_one_of("--matmul-precision", c.matmul_precision, {"auto", "fp32", "bf16"});
  if (c.matmul_precision == "bf16" && !c.bf16) {
    throw ConfigError("--matmul-precision bf16 needs 16-bit parameters: add --bf16");
  }
  require_one_of("--attention-backend", c.attention_backend, {"fused", "unfused"});
  require_one_of("--loss-average", c.loss_average, {"token", "microbatch"});
  require_one_of("--data-order", c.data_order, {"megatron", "sequential"});
  if (c.seed <= 0) throw ConfigError("--seed {} must be above 0", c.seed);
}

void resolve_learning_rate(TrainConfig& c) {
  if (!c.lr) throw ConfigError("--lr must be given");
  if (!(*c.lr >= 0.0) || !(c.min_lr >= 0.0)) {
    throw ConfigError("--lr {} and --min-lr {} must not be negative", *c.lr, c.min_lr);
  }
  if (c.min_lr > *c.lr) throw ConfigError("--min-lr {} is above --lr {}", c.min_lr, *c.lr);
  if (c.lr_warmup_init > *c.lr) {
    throw ConfigError("--lr-warmup-init {} is above --lr {}", c.lr_warmup_init, *c.lr);
  }
  if (!decay_style_from_name(c.lr_decay_style)) {
    throw ConfigError(
        "--lr-decay-style {}: choose one of constant, linear, cosine, inverse-square-root",
        c.lr_decay_style);
  }
  if (c.lr_warmup_fraction && (c.lr_warmup_iters != 0 || c.lr_warmup_samples != 0)) {
    throw ConfigError(
        "--lr-warmup-fraction excludes --lr-warmup-iters and --lr-warmup-samples: give one");
  }
  if (c.lr_warmup_fraction) require_range("--lr-warmup-fraction", *c.lr_warmup_fraction, 0.0, 1.0);
  const ParameterSchedule schedule = parameter_schedule(c);
  if (schedule.decay_samples <= 0 || schedule.warmup_samples >= schedule.decay_samples) {
    throw ConfigError("the warm-up ({} samples) must end before the decay does ({} samples)",
                      schedule.warmup_samples, schedule.decay_samples);
  }
}

void resolve_length(TrainConfig& c) {
  if ((c.train_iters > 0) == (c.train_samples > 0)) {
    throw ConfigError("give one of --train-iters and --train-samples");
  }
  if (c.train_iters > 0 && (c.lr_decay_samples != 0 || c.lr_warmup_samples != 0)) {
    throw ConfigError(
        "--lr-decay-samples and --lr-warmup-samples go with --train-samples; with --train-iters "
        "use --lr-decay-iters and --lr-warmup-iters");
  }
  if (c.train_samples > 0 && (c.lr_decay_iters != 0 || c.lr_warmup_iters != 0)) {
    throw ConfigError(
        "--lr-decay-iters and --lr-warmup-iters go with --train-iters; with --train-samples use "
        "--lr-decay-samples and --lr-warmup-samples");
  }
  if (train_iterations(c) <= 0) {
    throw ConfigError("--train-samples {} is less than one --global-batch-size {}", c.train_samples,
                      c.global_batch_size);
  }
}

void resolve_run(TrainConfig& c) {
  resolve_length(c);
  resolve_learning_rate(c);
  if (c.data_path.empty()) throw ConfigError("--data-path must be given");
  if (!c.save.empty()) require_positive("--save-interval (with --save)", c.save_interval);
  require_positive("--log-interval", c.log_interval);
  require_positive("--keep-last", c.keep_last);
  require_not_negative("--eval-iters", c.eval_iters);
  require_not_negative("--eval-interval", c.eval_interval);
  require_not_negative("--exit-interval", c.exit_interval);
  if (c.override_opt_param_scheduler && c.use_checkpoint_opt_param_scheduler) {
    throw ConfigError(
        "--override-opt_param-scheduler and --use-checkpoint-opt_param-scheduler contradict each "
        "other");
  }
}

}  // namespace

void resolve(TrainConfig& config, bool for_training) {
  resolve_network(config);
  resolve_regularisation(config);
  resolve_batch(config);
  if (for_training) resolve_run(config);
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
                      .dtype = c.bf16 ? DType::kBF16 : DType::kF32,
                      .init_key = random_key(seed, RandomPurpose::kInitialisation),
                      .dropout_key = random_key(seed, RandomPurpose::kDropout)},
      .vocabulary = vocabulary,
      .padded_vocabulary = padded_vocabulary(vocabulary, c.make_vocab_size_divisible_by, 1),
      .max_positions = c.max_position_embeddings,
      .tied_embedding = !c.untie_embeddings_and_output_weights};
}

AdamSettings adam_settings(const TrainConfig& c) {
  return {.beta1 = c.adam_beta1,
          .beta2 = c.adam_beta2,
          .epsilon = c.adam_eps,
          .clip_grad = c.clip_grad};
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
      .warmup_samples = 0,
      .decay_samples = given_decay > 0 ? given_decay : total,
      .decay_style = *decay_style_from_name(c.lr_decay_style),
      .start_weight_decay = *c.start_weight_decay,
      .end_weight_decay = *c.end_weight_decay,
      .weight_decay_samples = total,
      .weight_decay_style = *weight_decay_style_from_name(c.weight_decay_incr_style)};
  if (c.lr_warmup_fraction) {
    schedule.warmup_samples = static_cast<std::int64_t>(
        *c.lr_warmup_fraction * static_cast<double>(schedule.decay_samples));
  } else {
    schedule.warmup_samples = by_samples ? c.lr_warmup_samples : c.lr_warmup_iters * batch;
  }
  return schedule;
}

std::int64_t num_microbatches(const TrainConfig& c) {
  return c.global_batch_size / c.micro_batch_size;
}

std::int64_t train_iterations(const TrainConfig& c) {
  return c.train_iters > 0 ? c.train_iters : c.train_samples / c.global_batch_size;
}

}  // namespace phalanx
