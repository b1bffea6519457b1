#pragma once
// The settings of a training run, in seven parts: what is computed, what is added to its linears,
// how it lies on ranks, what it reads, what makes ids of text, how weights are updated, and how the
// run goes. Fields are named
// after Megatron's flags (--num-layers is num_layers) and have Megatron's defaults. A room takes
// only the parts that it uses: inference, for example, takes the model and the data. Sizes that a
// flag leaves open are derived by resolve() (rules/resolve.h), which also refuses contradictions.
// What follows from the settings is in config_views.h.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/comm/sum_tree.h"
#include "phalanx/tokenizer/registry.h"

namespace phalanx {

// What is computed. 0 means not given.
struct ModelConfig {
  // The name of the family (families/family.h): the word behind the command, no flag.
  std::string family = "gpt";

  std::int64_t num_layers = 0;          // layers of the only stack, or of the encoder
  std::int64_t decoder_num_layers = 0;  // layers of the decoder, if there is one; 0: as num_layers
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t kv_channels = 0;
  bool group_query_attention = false;
  std::int64_t num_query_groups = 1;
  std::int64_t max_position_embeddings = 0;
  // learned_absolute, relative, rope, none
  std::string position_embedding_type = "learned_absolute";
  bool no_position_embedding = false;  // resolve() makes it "none", or leaves "rope"
  // Of rotary positions.
  double rotary_base = 10000.0;
  double rotary_percent = 1.0;  // of a head's dimensions that rotate
  bool rotary_interleaved = false;
  double rotary_seq_len_interpolation_factor = 1.0;
  std::string rope_type = "rope";  // rope, yarn
  bool use_rope_scaling = false;   // Llama 3's
  double rope_scaling_factor = 8.0;
  double rope_low_freq_factor = 1.0;
  double rope_high_freq_factor = 4.0;
  std::int64_t rope_original_max_positions = 8192;
  double yarn_beta_fast = 32.0;
  double yarn_beta_slow = 1.0;
  double yarn_attention_factor = 0.0;  // 0: derived from the scaling's factor
  bool yarn_no_truncate = false;
  std::int64_t relative_attention_num_buckets = 32;
  std::int64_t relative_attention_max_distance = 128;
  bool bert_no_binary_head = false;  // BERT without sentence order: no types, no pooler
  bool post_layernorm = false;  // norms behind the residual sums, not in front of the sub-layers
  std::int64_t model_vocab_size = 0;  // 0: the tokenizer's
  std::int64_t make_vocab_size_divisible_by = 128;
  std::string normalization = "LayerNorm";  // LayerNorm, RMSNorm
  bool apply_layernorm_1p = false;          // norm weights are kept less 1
  double norm_epsilon = 1e-5;
  // gelu, relu, silu, squaredrelu; before resolve() also swiglu. resolve() makes activation_func,
  // gated_linear_unit and the older switches agree.
  std::string activation_func = "gelu";
  bool gated_linear_unit = false;
  bool swiglu = false;
  bool squared_relu = false;
  bool disable_bias_linear = false;
  bool add_qkv_bias = false;  // even if other linears have no bias
  bool qk_layernorm = false;
  double attention_scale = 0.0;  // factor of the scores; 0: 1 / sqrt(kv_channels)
  // How many keys before and after itself a query sees; negative: all before it.
  std::string window_size = "-1,0";
  // Which layers have the window: "N" for all but every N-th, or a list of 0 and 1.
  std::string window_attn_skip_freq;
  bool scale_decoder_output = false;  // T5: times 1 / sqrt(hidden_size), before the output matrix
  bool disable_output_bias = false;   // T5: no bias of the logits
  bool untie_embeddings_and_output_weights = false;
  bool no_bias_gelu_fusion = false;  // exact erf GeLU instead of the tanh form
  double init_method_std = 0.02;
  double attention_dropout = 0.1;
  double hidden_dropout = 0.1;

  bool bf16 = false;
  bool fp16 = false;
  bool fp32_residual_connection = false;
  std::string matmul_precision = "auto";    // auto, fp32, bf16, amx2
  std::string attention_backend = "fused";  // fused, unfused
};

// Layers whose MLP is a mixture of experts.
struct ExpertConfig {
  std::int64_t num_experts = 0;  // 0: no layer has any
  // "N": layer i, from 0, has experts if N divides i; or a list of 0 and 1.
  std::string moe_layer_freq = "1";
  std::int64_t moe_ffn_hidden_size = 0;  // 0: as dense layers
  std::int64_t moe_router_topk = 2;
  std::string moe_router_score_function = "softmax";  // softmax, sigmoid, sqrtsoftplus
  bool moe_router_pre_softmax = false;
  std::int64_t moe_router_num_groups = 0;  // 0: none
  std::int64_t moe_router_group_topk = 0;
  std::string moe_router_group_score = "auto";  // auto, max, or a number
  double moe_router_topk_scaling_factor = 0.0;  // 0: none
  bool moe_router_enable_expert_bias = false;
  double moe_router_bias_update_rate = 1e-3;
  double moe_input_jitter_eps = 0.0;
  bool moe_router_force_load_balancing = false;
  // aux_loss, seq_aux_loss, global_aux_loss, sinkhorn, none; the coefficients are of the same
  // order.
  std::vector<std::string> moe_router_load_balancing_type = {"aux_loss"};
  std::vector<std::string> moe_aux_loss_coeff = {"0"};
  double moe_z_loss_coeff = 0.0;
  double moe_expert_capacity_factor = 0.0;      // 0 or less: none
  std::string moe_token_drop_policy = "probs";  // probs, position
  bool moe_pad_expert_input_to_capacity = false;
  std::string moe_token_dispatcher_type = "allgather";  // allgather, alltoall, flex: alltoall
  double moe_planned_imbalance = 2.0;
  std::int64_t moe_shared_expert_intermediate_size = 0;  // 0: none
  bool moe_shared_expert_gate = false;
  bool moe_per_layer_logging = false;
};

// Low-rank adapters (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models") of the
// linears of layers: y = x W^T + scale (drop(x) A^T) B^T. The model's other parameters are not
// trained, unless --trainable names them.
struct LoraConfig {
  std::int64_t rank = 0;        // 0: no adapters
  std::optional<double> alpha;  // must be given with a rank
  double dropout = 0.0;         // of an adapter's input
  std::string scaling =
      "standard";  // the scale: alpha / rank, or rank-stabilized: alpha / sqrt(rank)
  // Parts of linears: q k v o gate up down; qkv and fc1 are one adapter for all rows of these
  // linears; all-linear: every linear of a layer, by parts.
  std::vector<std::string> targets = {"all-linear"};
  std::string layers;            // "0-3,7", from 0; "": all
  std::string init = "uniform";  // of A: uniform, gaussian; B is zero
  std::string load;              // a directory with the adapters to begin with; "": new ones
  std::string base;              // where the base of the loaded checkpoint is; "": where it was
  // No flag, but known when the run begins: another checkpoint has all that is not trained, so this
  // run does not save it.
  bool has_base = false;
};

// How it lies on ranks. The world size of a run comes from --nproc or from a launcher, that of a
// plan from --world-size. The data-parallel size is the world size divided by the tensor, pipeline
// and context sizes.
struct LayoutConfig {
  std::int64_t world_size = 1;
  std::int64_t local_size = 0;  // ranks that share this machine's cores; 0: all
  std::int64_t tensor_model_parallel_size = 1;
  std::int64_t pipeline_model_parallel_size = 1;
  std::int64_t context_parallel_size = 1;
  // How context-parallel ranks exchange keys and values, in all layers or in each: p2p, a2a,
  // all_gather, a2a+p2p.
  std::vector<std::string> cp_comm_type = {"p2p"};
  // Of a2a+p2p: ranks that exchange heads, and how many groups of these there are.
  std::vector<std::int64_t> hierarchical_context_parallel_sizes;
  std::string context_parallel_cut = "sequence";  // sequence, documents
  std::int64_t expert_model_parallel_size = 1;
  std::int64_t expert_tensor_parallel_size = 0;  // 0: as other layers
  bool sequence_parallel = false;
  bool use_tp_pp_dp_mapping = false;
  // The reduction of an input gradient is waited for before the next operation.
  bool no_async_tensor_model_parallel_allreduce = false;

  std::int64_t sum_block_size = kSumBlock;  // ranks whose values are added from left to right

  std::string device = "cpu";         // where ranks compute: cpu, cuda, cuda-emulated
  std::int64_t threads_per_rank = 0;  // 0: the machine's cores divided by its ranks
  std::string threads_reason;         // how resolve() chose threads_per_rank, for the log
  bool no_cpu_affinity = false;       // ranks are bound to no cores

  std::int64_t micro_batch_size = 0;
  std::int64_t global_batch_size = 0;                 // the last one, if it changes
  std::vector<std::string> rampup_batch_size;         // START, INCREMENT, SAMPLES
  std::vector<std::string> step_batch_size_schedule;  // TOKENS:BATCH, or several between blanks
  bool decrease_batch_size_if_needed = false;

  // Pipelines.
  std::string pipeline_schedule;  // "": 1f1b, or interleaved where ranks have several chunks
  std::int64_t num_layers_per_virtual_pipeline_stage = 0;             // 0: not given
  std::int64_t num_virtual_stages_per_pipeline_rank = 0;              // 0: not given
  std::int64_t microbatch_group_size_per_virtual_pipeline_stage = 0;  // 0: the schedule's choice
  std::int64_t decoder_first_pipeline_num_layers = 0;  // of the first rank; 0: not given
  std::int64_t decoder_last_pipeline_num_layers = 0;   // of the last
  std::int64_t pipeline_drain_interval = 10;           // asynchronous schedules: iterations
  // The first stage has the embedding and no layer.
  bool standalone_embedding_stage = false;
  // For an encoder and a decoder. resolve() derives the split rank from the encoder's sizes, and
  // makes the pipeline's size that of both stacks together.
  std::int64_t pipeline_model_parallel_split_rank = 0;    // the decoder's first; 0: not given
  std::int64_t encoder_pipeline_model_parallel_size = 0;  // 0: not given
  std::int64_t encoder_tensor_model_parallel_size = 0;    // 0: as the decoder's

  // Data parallelism. How much of a rank's states is sharded over data-parallel ranks: the stage of
  // ZeRO. There are four ways to set it; resolve() makes them agree.
  std::int64_t zero_stage = 0;
  bool use_distributed_optimizer = false;       // stage 1, at least
  std::string data_parallel_sharding_strategy;  // "", no_shard, optim, optim_grads, ..._params
  bool use_megatron_fsdp = false;               // without a strategy: stage 3
  std::int64_t num_distributed_optimizer_instances = 1;  // copies of the states
  bool zero_accumulate_unsharded = false;
  std::int64_t zero_prefetch_depth = 1;               // units
  std::int64_t zero_persistence_threshold = 100'000;  // elements
  bool no_zero_reshard_after_forward = false;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  std::int64_t ddp_bucket_size = 0;  // elements; 0: Megatron's default

  // Directories of fast disks for states that need not lie in memory; "": they do.
  std::string offload_optimizer_to;    // main parameters, moments and the shard of gradients
  std::string offload_parameters_to;   // weights, except those of units that a pass is reading
  std::string offload_activations_to;  // what forward saves for backward
  double offload_fraction = 1.0;       // of the optimizer's states
  // How those files are read and written.
  std::int64_t aio_block_size = std::int64_t{1} << 20;  // bytes
  std::int64_t aio_queue_depth = 8;                     // blocks that are moved at once
  std::string disk_bandwidth;  // "READ,WRITE" GB/s, for predictions; "": not known

  // Recomputation of activations.
  std::string recompute_granularity;      // "", selective, full
  std::string recompute_method;           // "", uniform, block
  std::int64_t recompute_num_layers = 0;  // 0: not given, 1
  bool distribute_saved_activations = false;
};

// What it reads.
struct DataConfig {
  // WEIGHT PREFIX WEIGHT PREFIX ..., or prefixes.
  std::vector<std::string> data_path;
  std::vector<std::string> train_data_path;
  std::vector<std::string> valid_data_path;
  std::vector<std::string> test_data_path;
  std::string data_args_path;            // a file of --data-path's words
  std::string per_split_data_args_path;  // JSON
  bool mock_data = false;
  std::string split = "969, 30, 1";
  std::int64_t seq_length = 0;             // tokens of the only stack, or of the encoder
  std::int64_t decoder_seq_length = 0;     // tokens of the decoder, if there is one; 0: not given
  double mask_prob = 0.15;                 // BERT and T5
  double short_seq_prob = 0.1;             // BERT and T5
  std::string data_order = "megatron";     // megatron, sequential
  std::string data_cache_path;             // "": none
  std::string dataloader_type = "single";  // single, cyclic
  bool no_data_sharding = false;
  bool full_validation = false;
  bool multiple_validation_sets = false;
  bool eod_mask_loss = false;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  std::string pack_documents = "wrapped";  // wrapped, greedy, best-fit
  // Conversations (docs/chat.md): data paths name files of JSON lines.
  bool sft = false;
  std::string sft_loss = "assistant";    // assistant, last, all, completion
  std::string sft_truncation = "drop";   // error, drop, end, start
  std::string sft_packing = "best-fit";  // best-fit, next-fit, none
  std::string sft_average = "token";     // token, sample
  bool sft_drop_incomplete = false;
  std::string sft_special_tokens_in_content = "refuse";  // refuse, parse
  std::string chat_template;                             // a file; "": the one beside the tokenizer
  std::string chat_template_args;                        // a JSON object; "": none
  std::string chat_template_date;                        // YYYY-MM-DD; "": none
  std::int64_t num_workers = 2;  // threads of a rank that read ahead; 0: none
  bool check_batches = false;    // that coordinates of rows keep to the model's patterns
};

// How weights are updated.
struct OptimizerConfig {
  // Regular expressions of names of parameters (settings/trained_parameters.h).
  std::vector<std::string> trainable;
  std::vector<std::string> freeze;
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
  // The last stretch of --lr-decay-style WSD.
  std::string lr_wsd_decay_style = "exponential";
  std::int64_t lr_wsd_decay_iters = 0;    // 0: not given
  std::int64_t lr_wsd_decay_samples = 0;  // 0: not given
  // Rates of the word table and the output layer, if they differ from the others.
  std::optional<double> decoupled_lr;
  std::optional<double> decoupled_min_lr;
  bool override_opt_param_scheduler = false;
  bool use_checkpoint_opt_param_scheduler = false;

  double weight_decay = 0.01;
  std::optional<double> start_weight_decay;
  std::optional<double> end_weight_decay;
  std::string weight_decay_incr_style = "constant";
  double clip_grad = 1.0;
  std::string optimizer = "adam";  // adam, sgd
  double sgd_momentum = 0.9;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_eps = 1e-8;

  std::string loss_average = "token";  // token, microbatch
  bool log_num_zeros_in_grad = false;
  bool log_params_norm = false;

  std::optional<double> loss_scale;  // constant; without it fp16 scales dynamically
  double initial_loss_scale = 4294967296.0;
  double min_loss_scale = 1.0;
  std::int64_t loss_scale_window = 1000;
  std::int64_t hysteresis = 2;
};

// Whoever starts a job's command line again after a failure: a launcher, torchrun, Slurm.
struct JobName {
  std::string name;           // new with every launch, the same for all of its attempts
  std::int64_t restarts = 0;  // how often it has started this job again
};

// How the run goes.
struct RunConfig {
  std::string answer_prompts;        // a file of conversations that the run answers; "": none
  std::int64_t answer_interval = 0;  // iterations; 0: eval_interval
  std::int64_t answer_tokens = 64;   // of an answer, at most
  std::int64_t train_iters = 0;
  std::int64_t train_samples = 0;
  std::int64_t exit_interval = 0;
  double exit_duration_in_mins = 0.0;
  std::string exit_signal = "SIGTERM";          // asks a run to stop, as SIGTERM and SIGINT do
  bool skip_train = false;                      // only the last evaluations
  std::vector<std::string> iterations_to_skip;  // by number, as the log counts them
  // A loss or gradient that is not finite skips its step instead of ending the run.
  bool no_check_for_nan_in_loss_and_grad = false;
  std::int64_t check_weight_hash_across_dp_replicas_interval = 0;  // iterations; 0: never
  std::int64_t seed = 1234;
  double distributed_timeout_minutes = 10.0;
  std::optional<double> hang_timeout_s;     // 0: never
  std::optional<double> silence_timeout_s;  // above 0
  std::string rdzv_secret_file;
  bool rdzv_insecure = false;
  bool rdzv_bind_any = false;

  // Checkpoints.
  std::string save;
  std::int64_t save_interval = 0;
  std::string load;
  std::string pretrained_checkpoint;  // used if --load has nothing: a new run from these weights
  std::int64_t ckpt_step = 0;
  bool no_save_optim = false;
  bool ckpt_fully_parallel_save = false;     // every rank writes what it has
  bool no_ckpt_fully_parallel_load = false;  // each rank reads all that it needs
  bool async_save = false;                   // the same, while training goes on
  // Of the states' bytes: the memory for what an update changes before it is written; 0: updates
  // wait. Absent: what the host's memory allows.
  std::optional<double> snapshot_fraction;
  bool save_skip_if_busy = false;  // no save begins before the last one has ended
  bool no_load_optim = false;
  bool finetune = false;
  // The new run has experts, made of the MLPs of a dense model: of how many parts of one MLP.
  bool moe_use_upcycling = false;
  std::int64_t moe_upcycling_granularity = 1;
  bool use_checkpoint_args = false;
  bool exit_on_missing_checkpoint = false;
  std::int64_t memory_snapshot_interval = 0;  // iterations; 0: no snapshots in memory
  std::int64_t keep_last = 3;
  std::int64_t keep_every = 0;   // iterations whose multiples stay, too; 0: none
  bool no_verify_saves = false;  // checkpoints are not read back after they are saved
  std::string save_copy;         // a second place
  std::int64_t save_copy_interval = 0;
  // Checkpoints that do not last: the newest stays alone, in a directory of its own.
  std::int64_t non_persistent_save_interval = 0;
  std::string non_persistent_ckpt_type;        // "global"; "": there are none
  std::string non_persistent_global_ckpt_dir;  // "": SAVE/non_persistent
  std::vector<std::string> allow_changed;      // flags that may differ from the checkpoint's
  bool overwrite = false;  // what --save holds beyond the loaded checkpoint is moved aside
  // How often this job was started again, and by which launchers; read from the environment.
  std::int64_t restarts = 0;  // the largest of their counts
  std::string memory_files;   // of `phalanx launch`, for snapshots; read from the environment
  std::vector<JobName> job;

  // Validation.
  std::int64_t eval_iters = 100;
  std::int64_t eval_interval = 1000;

  // Logging.
  std::int64_t log_interval = 100;
  bool log_throughput = false;
  std::int64_t log_memory_interval = 0;  // 0: only with the first line
  std::int64_t timing_log_level = 0;
  std::string timing_log_option = "minmax";  // max, minmax, all
  std::string tensorboard_dir;               // "": nothing is written for TensorBoard
  std::int64_t tensorboard_log_interval = 1;
  std::int64_t tensorboard_queue_size = 1000;
  bool log_timers_to_tensorboard = false;
  bool log_batch_size_to_tensorboard = false;
  bool log_memory_to_tensorboard = false;
  bool log_world_size_to_tensorboard = false;
  bool log_validation_ppl_to_tensorboard = false;
  bool no_log_learning_rate_to_tensorboard = false;
  bool no_log_loss_scale_to_tensorboard = false;
  std::string trace;  // file for the timeline of the last iteration
  // The machine for which a step is predicted, a shipped name or a file; "": nothing is predicted.
  std::string cluster;
  std::string
      write_device_file;  // the description of a device that the run's steps imply; "": none

  bool allow_overcommit = false;  // begin although the memory plan does not fit
};

class ModelFamily;

struct TrainConfig {
  // The family of a program that brings its own; null: Phalanx's family of the name model.family.
  std::shared_ptr<const ModelFamily> family;
  // The values of the family's own flags, by name.
  std::map<std::string, std::string> family_options;
  // What the files of an imported model say beside flags (flags/model_arguments.h): a
  // run has it from the checkpoint that it begins with.
  std::map<std::string, std::string> imported;

  ModelConfig model;
  ExpertConfig experts;
  LoraConfig lora;
  LayoutConfig layout;
  DataConfig data;
  TokenizerOptions tokenizer;
  OptimizerConfig optimizer;
  RunConfig run;
};

// The configuration for inference with the trained model: one rank, forward passes only. It is not
// yet resolved.
TrainConfig for_inference(const TrainConfig& trained);

}  // namespace phalanx
