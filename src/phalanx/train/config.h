#pragma once
// The settings of a training run, named after Megatron's flags (--num-layers is num_layers), with
// Megatron's defaults; and what follows from them. Sizes a flag leaves open are derived by
// resolve(), which also refuses contradictions.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/model/gpt.h"
#include "phalanx/optim/adam_optimizer.h"
#include "phalanx/optim/parameter_schedule.h"

namespace phalanx {

struct TrainConfig {
  // Network size. 0 means not given.
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t kv_channels = 0;
  bool group_query_attention = false;
  std::int64_t num_query_groups = 1;
  std::int64_t max_position_embeddings = 0;
  std::int64_t make_vocab_size_divisible_by = 128;
  double norm_epsilon = 1e-5;
  bool untie_embeddings_and_output_weights = false;
  bool no_bias_gelu_fusion = false;  // exact erf GeLU instead of the tanh form
  double init_method_std = 0.02;

  // Regularisation.
  double attention_dropout = 0.1;
  double hidden_dropout = 0.1;
  double weight_decay = 0.01;
  std::optional<double> start_weight_decay;
  std::optional<double> end_weight_decay;
  std::string weight_decay_incr_style = "constant";
  double clip_grad = 1.0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_eps = 1e-8;

  // Training.
  std::int64_t micro_batch_size = 0;
  std::int64_t global_batch_size = 0;
  std::int64_t train_iters = 0;
  std::int64_t train_samples = 0;
  std::int64_t exit_interval = 0;
  double exit_duration_in_mins = 0.0;
  std::int64_t seed = 1234;

  // Learning rate. Iterations, or samples in sample mode (--train-samples).
  std::optional<double> lr;
  double min_lr = 0.0;
  std::string lr_decay_style = "linear";
  std::int64_t lr_decay_iters = 0;
  std::int64_t lr_decay_samples = 0;
  std::optional<double> lr_warmup_fraction;
  std::int64_t lr_warmup_iters = 0;
  std::int64_t lr_warmup_samples = 0;
  double lr_warmup_init = 0.0;
  bool override_opt_param_scheduler = false;
  bool use_checkpoint_opt_param_scheduler = false;

  // Checkpoints.
  std::string save;
  std::int64_t save_interval = 0;
  std::string load;
  std::int64_t ckpt_step = 0;
  bool no_save_optim = false;
  bool no_load_optim = false;
  bool finetune = false;
  bool exit_on_missing_checkpoint = false;
  std::int64_t keep_last = 3;

  // Precision.
  bool bf16 = false;
  std::string matmul_precision = "auto";  // auto, fp32, bf16

  // Validation.
  std::int64_t eval_iters = 100;
  std::int64_t eval_interval = 1000;

  // Data.
  std::string data_path;
  std::string split = "969, 30, 1";
  std::int64_t seq_length = 0;
  std::string data_order = "megatron";  // megatron, sequential
  std::string tokenizer_type;
  std::string vocab_file;
  std::string merge_file;
  std::int64_t vocab_size = 0;
  bool eod_mask_loss = false;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;

  // Logging.
  std::int64_t log_interval = 100;
  bool log_throughput = false;

  // Phalanx's own.
  std::int64_t threads_per_rank = 0;        // 0: all cores
  bool allow_different_threads = false;     // resume although another thread count makes other bits
  std::string attention_backend = "fused";  // fused, unfused
  std::string loss_average = "token";       // token, microbatch

  // Every flag with its value as text, for the checkpoint; filled by the command line.
  std::vector<std::pair<std::string, std::string>> arguments;
};

// Derives what was left open and refuses what is missing, out of range or contradictory:
// ConfigError naming the flags. `for_training` also asks for what only a run needs (learning rate,
// data, length).
void resolve(TrainConfig& config, bool for_training);

// Views of a resolved configuration. `vocabulary` is the tokenizer's size, `data_parallel_size` how
// many ranks share a global batch.
GptConfig gpt_config(const TrainConfig& config, std::int64_t vocabulary);
AdamSettings adam_settings(const TrainConfig& config);
ParameterSchedule parameter_schedule(const TrainConfig& config);
std::int64_t num_microbatches(const TrainConfig& config);
// The length of the run in iterations, also where it was given in samples.
std::int64_t train_iterations(const TrainConfig& config);

}  // namespace phalanx
