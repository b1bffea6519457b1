#include "phalanx/train/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/train/config_rules.h"
#include "phalanx/train/config_views.h"

namespace phalanx {
namespace {

void resolve_network(TrainConfig& c) {
  require_positive("--num-layers", c.model.num_layers);
  require_positive("--hidden-size", c.model.hidden_size);
  require_positive("--num-attention-heads", c.model.num_attention_heads);
  require_positive("--seq-length", c.data.seq_length);
  require_positive("--max-position-embeddings", c.model.max_position_embeddings);
  require_positive("--make-vocab-size-divisible-by", c.model.make_vocab_size_divisible_by);
  if (c.model.max_position_embeddings < c.data.seq_length) {
    throw ConfigError("--max-position-embeddings {} is below --seq-length {}: raise the first",
                      c.model.max_position_embeddings, c.data.seq_length);
  }
  require_not_negative("--ffn-hidden-size", c.model.ffn_hidden_size);
  if (c.model.ffn_hidden_size == 0) c.model.ffn_hidden_size = 4 * c.model.hidden_size;
  require_not_negative("--kv-channels", c.model.kv_channels);
  if (c.model.kv_channels == 0) {
    if (c.model.hidden_size % c.model.num_attention_heads != 0) {
      throw ConfigError(
          "--hidden-size {} is not a multiple of --num-attention-heads {}: change one or give "
          "--kv-channels",
          c.model.hidden_size, c.model.num_attention_heads);
    }
    c.model.kv_channels = c.model.hidden_size / c.model.num_attention_heads;
  }
  if (!c.model.group_query_attention) {
    c.model.num_query_groups = c.model.num_attention_heads;
  } else if (c.model.num_query_groups <= 0 ||
             c.model.num_attention_heads % c.model.num_query_groups != 0) {
    throw ConfigError("--num-attention-heads {} is not a multiple of --num-query-groups {}",
                      c.model.num_attention_heads, c.model.num_query_groups);
  }
  // The dropout coordinates (base/philox.h) give a layer 16 bits and a head 12.
  if (c.model.num_layers >= kEmbeddingLayer) {
    throw ConfigError("--num-layers {} must be below {}", c.model.num_layers, kEmbeddingLayer);
  }
  if (c.model.num_attention_heads > 4096) {
    throw ConfigError("--num-attention-heads {} is above 4096", c.model.num_attention_heads);
  }
  if (!(c.model.init_method_std >= 0.0)) {
    throw ConfigError("--init-method-std {} is negative", c.model.init_method_std);
  }
}

void resolve_regularisation(TrainConfig& c) {
  require_range("--attention-dropout", c.model.attention_dropout, 0.0, 1.0);
  require_range("--hidden-dropout", c.model.hidden_dropout, 0.0, 1.0);
  require_range("--adam-beta1", c.optimizer.adam_beta1, 0.0, 1.0);
  require_range("--adam-beta2", c.optimizer.adam_beta2, 0.0, 1.0);
  if (!(c.optimizer.adam_eps > 0.0))
    throw ConfigError("--adam-eps {} must be above 0", c.optimizer.adam_eps);
  if (!(c.optimizer.clip_grad >= 0.0)) {
    throw ConfigError("--clip-grad {} is negative; 0 turns clipping off", c.optimizer.clip_grad);
  }
  const auto style = weight_decay_style_from_name(c.optimizer.weight_decay_incr_style);
  if (!style) {
    throw ConfigError("--weight-decay-incr-style {}: choose one of constant, linear, cosine",
                      c.optimizer.weight_decay_incr_style);
  }
  if (*style == WeightDecayStyle::kConstant) {
    const auto differs = [&](const std::optional<double>& given) {
      return given && *given != c.optimizer.weight_decay;
    };
    if (differs(c.optimizer.start_weight_decay) || differs(c.optimizer.end_weight_decay)) {
      throw ConfigError(
          "--start-weight-decay and --end-weight-decay need --weight-decay-incr-style linear or "
          "cosine");
    }
    c.optimizer.start_weight_decay = c.optimizer.weight_decay;
    c.optimizer.end_weight_decay = c.optimizer.weight_decay;
  }
  if (!c.optimizer.start_weight_decay || !c.optimizer.end_weight_decay) {
    throw ConfigError(
        "--weight-decay-incr-style {} needs both --start-weight-decay and --end-weight-decay",
        c.optimizer.weight_decay_incr_style);
  }
  if (*c.optimizer.start_weight_decay < 0.0 ||
      *c.optimizer.end_weight_decay < *c.optimizer.start_weight_decay) {
    throw ConfigError("weight decay from {} to {}: it must be at least 0 and must not fall",
                      *c.optimizer.start_weight_decay, *c.optimizer.end_weight_decay);
  }
}

// Larger worlds and sizes are typing errors; below, no product of three leaves int64.
constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

void require_ranks(std::string_view flag, std::int64_t value) {
  require_positive(flag, value);
  if (value > kMaxRanks) throw ConfigError("{} {} is above {}", flag, value, kMaxRanks);
}

// Those that can really run at once, unless the flag says otherwise.
void resolve_threads(TrainConfig& c) {
  const UsableCores cores = usable_cores();
  if (c.layout.threads_per_rank == 0) {
    c.layout.threads_per_rank = std::max<std::int64_t>(1, cores.count / c.layout.world_size);
    c.layout.threads_reason =
        c.layout.world_size == 1
            ? cores.reason
            : fmt::format("{}, shared by {} ranks", cores.reason, c.layout.world_size);
  } else if (c.layout.threads_reason.empty() &&
             c.layout.threads_per_rank > cores.count / c.layout.world_size) {
    c.layout.threads_reason = fmt::format("as given; usable: {}", cores.reason);
  }
}

void resolve_ranks(TrainConfig& c) {
  const std::int64_t tensor = c.layout.tensor_model_parallel_size;
  require_ranks("--nproc (--world-size of a plan)", c.layout.world_size);
  require_ranks("--tensor-model-parallel-size", tensor);
  require_ranks("--pipeline-model-parallel-size", c.layout.pipeline_model_parallel_size);
  require_positive("--context-parallel-size", c.layout.context_parallel_size);
  if (c.layout.context_parallel_size > 1) {
    throw ConfigError(
        "--context-parallel-size {}: context parallelism is not available in this version of "
        "Phalanx; give 1",
        c.layout.context_parallel_size);
  }
  const std::int64_t model_ranks =
      tensor * c.layout.pipeline_model_parallel_size * c.layout.context_parallel_size;
  if (c.layout.world_size % model_ranks != 0) {
    throw ConfigError(
        "{} ranks (--nproc, or --world-size of a plan) are not a multiple of the {} that one copy "
        "of the model takes: --tensor-model-parallel-size {} x --pipeline-model-parallel-size {} x "
        "--context-parallel-size {}",
        c.layout.world_size, model_ranks, tensor, c.layout.pipeline_model_parallel_size,
        c.layout.context_parallel_size);
  }
  if (!(c.run.distributed_timeout_minutes > 0.0)) {
    throw ConfigError("--distributed-timeout-minutes {} must be above 0",
                      c.run.distributed_timeout_minutes);
  }
  require_not_negative("--threads-per-rank", c.layout.threads_per_rank);
  resolve_threads(c);
  if (c.layout.threads_per_rank > 1024) {
    throw ConfigError("--threads-per-rank {} is above 1024", c.layout.threads_per_rank);
  }
}

// What tensor parallelism cuts must come out even.
void resolve_tensor_parallelism(TrainConfig& c) {
  const std::int64_t size = c.layout.tensor_model_parallel_size;
  const auto require_even = [size](std::string_view flag, std::int64_t value) {
    if (value % size == 0) return;
    throw ConfigError("{} {} is not a multiple of --tensor-model-parallel-size {}", flag, value,
                      size);
  };
  require_even("--num-attention-heads", c.model.num_attention_heads);
  require_even("--num-query-groups", c.model.num_query_groups);
  require_even("--ffn-hidden-size", c.model.ffn_hidden_size);
  if (c.layout.sequence_parallel && size == 1) {
    log_info("--sequence-parallel is off: --tensor-model-parallel-size is 1");
    c.layout.sequence_parallel = false;
  }
  if (c.layout.sequence_parallel && c.data.seq_length % size != 0) {
    throw ConfigError(
        "--seq-length {} is not a multiple of --tensor-model-parallel-size {}: "
        "--sequence-parallel cuts it",
        c.data.seq_length, size);
  }
}

void resolve_data_parallelism(const TrainConfig& c) {
  require_not_negative("--ddp-bucket-size", c.layout.ddp_bucket_size);
  if (c.layout.overlap_param_gather &&
      !(c.layout.use_distributed_optimizer && c.layout.overlap_grad_reduce)) {
    throw ConfigError(
        "--overlap-param-gather needs --use-distributed-optimizer and --overlap-grad-reduce");
  }
}

void resolve_recomputation(TrainConfig& c) {
  if (c.layout.recompute_activations) {
    if (c.layout.recompute_granularity == "full") {
      throw ConfigError(
          "--recompute-activations means --recompute-granularity selective; it contradicts "
          "--recompute-granularity full");
    }
    c.layout.recompute_granularity = "selective";
  }
  if (!c.layout.recompute_granularity.empty()) {
    require_one_of("--recompute-granularity", c.layout.recompute_granularity,
                   {"selective", "full"});
  }
  require_not_negative("--recompute-num-layers", c.layout.recompute_num_layers);
  if (c.layout.recompute_granularity == "full") {
    if (c.layout.recompute_method.empty()) {
      throw ConfigError(
          "--recompute-granularity full needs --recompute-method uniform or --recompute-method "
          "block");
    }
    require_one_of("--recompute-method", c.layout.recompute_method, {"uniform", "block"});
    if (c.layout.recompute_num_layers == 0) c.layout.recompute_num_layers = 1;
    if (c.layout.recompute_num_layers > c.model.num_layers) {
      throw ConfigError("--recompute-num-layers {} is above --num-layers {}",
                        c.layout.recompute_num_layers, c.model.num_layers);
    }
  } else if (!c.layout.recompute_method.empty() || c.layout.recompute_num_layers != 0) {
    throw ConfigError(
        "--recompute-method and --recompute-num-layers go with --recompute-granularity full{}",
        c.layout.recompute_granularity.empty() ? "" : ": selective recomputes in every layer");
  }
  if (!c.layout.distribute_saved_activations) return;
  if (c.layout.recompute_granularity != "full") {
    throw ConfigError("--distribute-saved-activations needs --recompute-granularity full");
  }
  if (c.layout.tensor_model_parallel_size == 1) {
    throw ConfigError(
        "--distribute-saved-activations needs --tensor-model-parallel-size above 1: it spreads "
        "them over these ranks");
  }
  if (c.layout.sequence_parallel) {
    throw ConfigError(
        "--distribute-saved-activations and --sequence-parallel exclude each other: with the "
        "second they are spread already");
  }
  if (c.layout.micro_batch_size * c.data.seq_length * c.model.hidden_size %
          c.layout.tensor_model_parallel_size !=
      0) {
    throw ConfigError(
        "--distribute-saved-activations: --micro-batch-size {} x --seq-length {} x --hidden-size "
        "{} values cannot be cut into --tensor-model-parallel-size {} equal parts",
        c.layout.micro_batch_size, c.data.seq_length, c.model.hidden_size,
        c.layout.tensor_model_parallel_size);
  }
}

void resolve_precision(const TrainConfig& c) {
  if (c.model.fp16 && c.model.bf16)
    throw ConfigError("--fp16 and --bf16 exclude each other: give one");
  require_one_of("--matmul-precision", c.model.matmul_precision, {"auto", "fp32", "bf16"});
  if (c.model.matmul_precision == "bf16" && !c.model.bf16) {
    throw ConfigError("--matmul-precision bf16 needs bf16 parameters: add --bf16");
  }
  if (c.model.fp32_residual_connection && !c.model.fp16 && !c.model.bf16) {
    throw ConfigError("--fp32-residual-connection needs --fp16 or --bf16");
  }
  const auto require_scale = [](std::string_view flag, double value) {
    if (value > 0.0 && std::isfinite(value)) return;
    throw ConfigError("{} {} must be above 0 and finite", flag, value);
  };
  if (c.optimizer.loss_scale) require_scale("--loss-scale", *c.optimizer.loss_scale);
  require_scale("--initial-loss-scale", c.optimizer.initial_loss_scale);
  require_scale("--min-loss-scale", c.optimizer.min_loss_scale);
  if (c.optimizer.initial_loss_scale < c.optimizer.min_loss_scale) {
    throw ConfigError("--initial-loss-scale {} is below --min-loss-scale {}",
                      c.optimizer.initial_loss_scale, c.optimizer.min_loss_scale);
  }
  require_positive("--loss-scale-window", c.optimizer.loss_scale_window);
  require_positive("--hysteresis", c.optimizer.hysteresis);
}

void resolve_batch(TrainConfig& c) {
  require_positive("--micro-batch-size", c.layout.micro_batch_size);
  require_not_negative("--global-batch-size", c.layout.global_batch_size);
  const std::int64_t ranks = data_parallel_size(c.layout);
  const std::int64_t together = c.layout.micro_batch_size * ranks;
  if (c.layout.global_batch_size == 0) c.layout.global_batch_size = together;
  if (c.layout.global_batch_size % together != 0) {
    throw ConfigError(
        "--global-batch-size {} is not a multiple of {}: --micro-batch-size {} x {} data-parallel "
        "ranks",
        c.layout.global_batch_size, together, c.layout.micro_batch_size, ranks);
  }
  require_one_of("--attention-backend", c.model.attention_backend, {"fused", "unfused"});
  require_one_of("--loss-average", c.optimizer.loss_average, {"token", "microbatch"});
  if (c.optimizer.calculate_per_token_loss && c.optimizer.loss_average == "microbatch") {
    throw ConfigError(
        "--calculate-per-token-loss means --loss-average token; it contradicts --loss-average "
        "microbatch");
  }
  require_one_of("--data-order", c.data.data_order, {"megatron", "sequential"});
  if (c.run.seed <= 0) throw ConfigError("--seed {} must be above 0", c.run.seed);
}

void resolve_learning_rate(TrainConfig& c) {
  if (!c.optimizer.lr) throw ConfigError("--lr must be given");
  if (!(*c.optimizer.lr >= 0.0) || !(c.optimizer.min_lr >= 0.0)) {
    throw ConfigError("--lr {} and --min-lr {} must not be negative", *c.optimizer.lr,
                      c.optimizer.min_lr);
  }
  if (c.optimizer.min_lr > *c.optimizer.lr)
    throw ConfigError("--min-lr {} is above --lr {}", c.optimizer.min_lr, *c.optimizer.lr);
  if (c.optimizer.lr_warmup_init > *c.optimizer.lr) {
    throw ConfigError("--lr-warmup-init {} is above --lr {}", c.optimizer.lr_warmup_init,
                      *c.optimizer.lr);
  }
  if (!decay_style_from_name(c.optimizer.lr_decay_style)) {
    throw ConfigError(
        "--lr-decay-style {}: choose one of constant, linear, cosine, inverse-square-root",
        c.optimizer.lr_decay_style);
  }
  if (c.optimizer.lr_warmup_fraction &&
      (c.optimizer.lr_warmup_iters != 0 || c.optimizer.lr_warmup_samples != 0)) {
    throw ConfigError(
        "--lr-warmup-fraction excludes --lr-warmup-iters and --lr-warmup-samples: give one");
  }
  if (c.optimizer.lr_warmup_fraction)
    require_range("--lr-warmup-fraction", *c.optimizer.lr_warmup_fraction, 0.0, 1.0);
  const ParameterSchedule schedule = parameter_schedule(c);
  if (schedule.decay_samples <= 0 ||
      schedule.warmup_samples >= static_cast<double>(schedule.decay_samples)) {
    throw ConfigError("the warm-up ({} samples) must end before the decay does ({} samples)",
                      schedule.warmup_samples, schedule.decay_samples);
  }
}

void resolve_length(TrainConfig& c) {
  if ((c.run.train_iters > 0) == (c.run.train_samples > 0)) {
    throw ConfigError("give one of --train-iters and --train-samples");
  }
  if (c.run.train_iters > 0 &&
      (c.optimizer.lr_decay_samples != 0 || c.optimizer.lr_warmup_samples != 0)) {
    throw ConfigError(
        "--lr-decay-samples and --lr-warmup-samples go with --train-samples; with --train-iters "
        "use --lr-decay-iters and --lr-warmup-iters");
  }
  if (c.run.train_samples > 0 &&
      (c.optimizer.lr_decay_iters != 0 || c.optimizer.lr_warmup_iters != 0)) {
    throw ConfigError(
        "--lr-decay-iters and --lr-warmup-iters go with --train-iters; with --train-samples use "
        "--lr-decay-samples and --lr-warmup-samples");
  }
  if (c.run.train_samples > 0 && c.run.train_samples < c.layout.global_batch_size) {
    throw ConfigError("--train-samples {} is less than one --global-batch-size {}",
                      c.run.train_samples, c.layout.global_batch_size);
  }
}

void resolve_run(TrainConfig& c) {
  resolve_length(c);
  resolve_learning_rate(c);
  if (c.data.data_path.empty()) throw ConfigError("--data-path must be given");
  if (!c.run.save.empty()) require_positive("--save-interval (with --save)", c.run.save_interval);
  require_positive("--log-interval", c.run.log_interval);
  if (!c.run.trace.empty() && !c.run.trace.ends_with(".json")) {
    throw ConfigError("--trace {}: the name must end with .json; a picture goes beside it as .svg",
                      c.run.trace);
  }
  require_positive("--keep-last", c.run.keep_last);
  require_not_negative("--eval-iters", c.run.eval_iters);
  require_not_negative("--eval-interval", c.run.eval_interval);
  require_not_negative("--exit-interval", c.run.exit_interval);
  if (c.optimizer.override_opt_param_scheduler && c.optimizer.use_checkpoint_opt_param_scheduler) {
    throw ConfigError(
        "--override-opt_param-scheduler and --use-checkpoint-opt_param-scheduler contradict each "
        "other");
  }
}

}  // namespace

void resolve(TrainConfig& config, bool for_training) {
  resolve_network(config);
  resolve_regularisation(config);
  resolve_ranks(config);
  resolve_tensor_parallelism(config);
  resolve_data_parallelism(config);
  resolve_recomputation(config);
  resolve_precision(config);
  resolve_batch(config);
  resolve_pipeline(config);
  if (for_training) resolve_run(config);
}

TrainConfig for_inference(const TrainConfig& trained) {
  TrainConfig config{
      .model = trained.model, .layout = {}, .data = trained.data, .optimizer = {}, .run = {}};
  config.layout.micro_batch_size = 1;
  return config;
}

}  // namespace phalanx
