#include "phalanx/flag_table/deepspeed/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "phalanx/flag_table/reasons.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx::deepspeed {
namespace {

using enum Kind;

constexpr Key flag(std::string_view path, Kind kind, std::string_view name,
                   std::string_view text = {}) {
  return {.path = path, .kind = kind, .fate = Fate::kFlag, .flag = name, .text = text};
}
constexpr Key part(std::string_view path, Kind kind, std::string_view flags,
                   std::string_view text) {
  return {.path = path, .kind = kind, .fate = Fate::kPart, .flag = flags, .text = text};
}
constexpr Key taken(std::string_view path, Kind kind, std::string_view usual,
                    std::string_view text) {
  return {.path = path, .kind = kind, .fate = Fate::kTaken, .values = usual, .text = text};
}
constexpr Key only(std::string_view values, std::string_view path, Kind kind,
                   std::string_view text) {
  return {.path = path, .kind = kind, .fate = Fate::kOnly, .values = values, .text = text};
}
// Switches.
constexpr Key either_way(std::string_view path, std::string_view text) {
  return taken(path, kSwitch, "true false", text);
}
constexpr Key only_false(std::string_view path, std::string_view text) {
  return only("false", path, kSwitch, text);
}
constexpr Key off(std::string_view path, std::string_view text) {
  return {.path = path, .fate = Fate::kOff, .text = text};
}
constexpr Key refused(std::string_view path, std::string_view text) {
  return {.path = path, .fate = Fate::kRefused, .text = text};
}
constexpr Key when(std::string_view condition, Key key) {
  key.when = condition;
  return key;
}

constexpr std::string_view kBatches =
    "train_batch_size is train_micro_batch_size_per_gpu x gradient_accumulation_steps x the "
    "data-parallel ranks: two give the third, and three must agree";
constexpr std::string_view kAnyOptimizer = "every stage works with every optimizer";
constexpr std::string_view kBatchesAreWhole = "batches are always whole, whatever epoch they end";
constexpr std::string_view kAdamW = "Adam here is AdamW, whose weight decay is decoupled";
constexpr std::string_view kPlainSgd = "SGD has momentum and weight decay, and nothing more";
constexpr std::string_view kOneBucket =
    "reductions and gathers have buckets of one size: give both keys the same";
constexpr std::string_view kOffTheProgram =
    "the order of gathers is read off the program: --zero-prefetch-depth says how many units "
    "ahead, and a unit is let go behind its pass";
constexpr std::string_view kSpeedAlone =
    "it chooses between ways to do the same, of which Phalanx has one";
constexpr std::string_view kWholeCheckpoints =
    "checkpoints are whole and free of the layout: any number of ranks loads them";
constexpr std::string_view kInMemory =
    "states that are in no file lie in the host's memory and are updated there anyway";
constexpr std::string_view kTimes = "the log line has the times of an iteration";
constexpr std::string_view kSamples = "samples have one length and come in one order";
constexpr std::string_view kStaging = "memory that files pass through is planned";
constexpr std::string_view kNoQuantised = "weights and gradients are sent as they are";
constexpr std::string_view kOwnEngine = "files have an engine of their own: io_uring or threads";
constexpr std::string_view kRecomputed =
    "activations lie in planned places of the host's memory, and --recompute-granularity says "
    "which are computed again";

constexpr Key kKeys[] = {
    flag("train_batch_size", kInteger, "--global-batch-size", kBatches),
    flag("train_micro_batch_size_per_gpu", kInteger, "--micro-batch-size"),
    part("gradient_accumulation_steps", kInteger, "--global-batch-size --micro-batch-size",
         kBatches),
    flag("gradient_clipping", kReal, "--clip-grad"),
    flag("steps_per_print", kInteger, "--log-interval"),
    part("wall_clock_breakdown", kSwitch, "--timing-log-level",
         "true: the parts of an iteration, level 1"),
    flag("seed", kInteger, "--seed"),
    only_false("prescale_gradients", kAverageFromTheStart),
    only("1", "gradient_predivide_factor", kReal, kAverageFromTheStart),
    only("fp32 none", "communication_data_type", kText, kFp32Sums),
    only("fp32", "seq_parallel_comm_data_type", kText,
         "what tensor-parallel ranks sum has the dtype of activations, and partial sums are fp32"),
    only_false("sparse_gradients", "gradients of word tables are sent whole"),
    only_false("disable_allgather", "updated parameters are always gathered"),
    either_way("fp32_allreduce", kFp32Sums),
    either_way("zero_allow_untested_optimizer", kAnyOptimizer),
    either_way("zero_force_ds_cpu_optimizer", kAnyOptimizer),
    taken("dump_state", kSwitch, "false", "every run begins with the list of its arguments"),
    taken("memory_breakdown", kSwitch, "false",
          "every run begins with its memory plan, and --log-memory-interval repeats what is held"),
    either_way("dataloader_drop_last", kBatchesAreWhole),
    only_false("use_data_before_expert_parallelism",
               "neighbouring ranks share out the experts, as in Megatron-core"),
    only_false("graph_harvesting", "kernels are not recorded as graphs"),
    taken("vocabulary_size", kInteger, {},
          "the tokenizer says how many ids there are, or --model-vocab-size"),

    flag("fp16.enabled", kSwitch, "--fp16"),
    when("--fp16", part("fp16.loss_scale", kReal, "--loss-scale",
                        "0: it scales itself, and the keys below say how")),
    when("--fp16", part("fp16.initial_scale_power", kInteger, "--initial-loss-scale",
                        "a power of two, here the number itself")),
    when("--fp16", flag("fp16.loss_scale_window", kInteger, "--loss-scale-window")),
    when("--fp16", flag("fp16.hysteresis", kInteger, "--hysteresis")),
    when("--fp16", flag("fp16.min_loss_scale", kReal, "--min-loss-scale")),
    only_false(
        "fp16.consecutive_hysteresis",
        "a step without overflow gives no hysteresis back, only a doubling of the scale does"),
    only_false("fp16.auto_cast", "every tensor has the dtype that --fp16 gives it"),
    either_way("fp16.fused_mode", kSpeedAlone),
    only_false("fp16.fp16_master_weights_and_grads", kFp32States),
    flag("bf16.enabled", kSwitch, "--bf16", "bfloat16 is an older name of the object"),
    flag("bfloat16.enabled", kSwitch, "--bf16"),
    either_way("bf16.immediate_grad_update", kSpeedAlone),
    either_way("bf16.check_grad_overflow",
               "a gradient that is not finite always ends the run, unless "
               "--no-check-for-nan-in-loss-and-grad"),
    only_false("bf16.bf16_master_weights_and_grads", kFp32States),
    only_false("bf16.bf16_optimizer_states", kFp32States),
    only("fp32", "data_types.grad_accum_dtype", kText, kFp32Sums),
    off("amp", "Apex is a library of PyTorch's: use fp16 or bf16"),
    off("torch_autocast", "it is PyTorch's: use fp16 or bf16"),

    part("optimizer.type", kText, "--optimizer",
         "Adam and AdamW are adam, SGD is sgd; there are no others"),
    part("optimizer.params.lr", kReal, "--lr", "where the scheduler says no warmup_max_lr"),
    part("optimizer.params.betas", kPair, "--adam-beta1 --adam-beta2", "the two of them"),
    flag("optimizer.params.eps", kReal, "--adam-eps"),
    flag("optimizer.params.weight_decay", kReal, "--weight-decay"),
    flag("optimizer.params.momentum", kReal, "--sgd-momentum"),
    only("true", "optimizer.params.adam_w_mode", kSwitch, kAdamW),
    only("true", "optimizer.params.bias_correction", kSwitch,
         "Adam's moments are always corrected for their beginning at 0"),
    only_false("optimizer.params.amsgrad", "Adam's second moment may always fall"),
    only_false("optimizer.params.nesterov", kPlainSgd),
    only("0", "optimizer.params.dampening", kReal, kPlainSgd),
    only_false("optimizer.params.maximize", "losses are made small, not large"),
    only("0", "optimizer.params.max_grad_norm", kReal,
         "the norm of all gradients is clipped: give gradient_clipping"),
    either_way("optimizer.params.torch_adam", kSpeedAlone),
    either_way("optimizer.params.fused", kSpeedAlone),
    either_way("optimizer.params.foreach", kSpeedAlone),
    taken("optimizer.params.fp32_optimizer_states", kSwitch, "true", kFp32States),
    either_way("optimizer.legacy_fusion", kSpeedAlone),

    part("scheduler.type", kText, "--lr-decay-style",
         "WarmupLR is constant, WarmupDecayLR linear, WarmupCosineLR cosine; there are no others"),
    part("scheduler.params.warmup_type", kText, {},
         "it must be linear: without it DeepSpeed warms up logarithmically, as Phalanx cannot"),
    part("scheduler.params.warmup_num_steps", kInteger, "--lr-warmup-iters",
         "DeepSpeed's warm-up, and its linear decay, lag an iteration behind this"),
    part("scheduler.params.total_num_steps", kInteger, "--lr-decay-iters",
         "of WarmupDecayLR and WarmupCosineLR"),
    part("scheduler.params.warmup_max_lr", kReal, "--lr", "of WarmupLR and WarmupDecayLR"),
    part("scheduler.params.warmup_min_lr", kReal, "--lr-warmup-init --min-lr",
         "of WarmupLR, where it is the first alone, and of WarmupDecayLR"),
    part("scheduler.params.warmup_min_ratio", kReal, "--lr-warmup-init",
         "of WarmupCosineLR: times --lr"),
    part("scheduler.params.cos_min_ratio", kReal, "--min-lr", "of WarmupCosineLR: times --lr"),
    only("-1", "scheduler.params.last_batch_iteration", kInteger,
         "a resumed run goes on where its checkpoint stands"),

    flag("zero_optimization.stage", kInteger, "--zero-stage"),
    flag("zero_optimization.overlap_comm", kSwitch, "--overlap-grad-reduce"),
    part("zero_optimization.reduce_bucket_size", kInteger, "--ddp-bucket-size", kOneBucket),
    part("zero_optimization.allgather_bucket_size", kInteger, "--ddp-bucket-size", kOneBucket),
    only("true", "zero_optimization.contiguous_gradients", kSwitch, kContiguousGradients),
    only("true", "zero_optimization.reduce_scatter", kSwitch,
         "a rank is sent the sum of its own share alone"),
    only("true", "zero_optimization.allgather_partitions", kSwitch,
         "updated parameters are gathered from all ranks at once"),
    only_false("zero_optimization.round_robin_gradients",
               "gradients are shared out by the order of the parameters"),
    either_way("zero_optimization.use_multi_rank_bucket_allreduce", kSpeedAlone),
    either_way("zero_optimization.ignore_unused_parameters", "every parameter has a gradient"),
    only_false("zero_optimization.legacy_stage1", "there is one stage 1"),
    either_way("zero_optimization.elastic_checkpoint", kWholeCheckpoints),
    taken("zero_optimization.load_from_fp32_weights", kSwitch, "true",
          "main parameters are loaded as they were saved, in fp32"),
    taken("zero_optimization.sub_group_size", kInteger, "1000000000 1000000000000",
          "a step goes over the states by tiles of a planned size"),
    when("--zero-stage 3",
         part("zero_optimization.stage3_prefetch_bucket_size", kInteger, "--zero-prefetch-depth",
              "0: nothing ahead; otherwise the flag says how many units are gathered ahead, "
              "whatever their size")),
    when("--zero-stage 3", flag("zero_optimization.stage3_param_persistence_threshold", kInteger,
                                "--zero-persistence-threshold")),
    only("9223372036854775807", "zero_optimization.stage3_model_persistence_threshold", kInteger,
         "all parameters below stage3_param_persistence_threshold stay: lower that"),
    taken("zero_optimization.stage3_max_live_parameters", kInteger, "1000000000", kOffTheProgram),
    taken("zero_optimization.stage3_max_reuse_distance", kInteger, "1000000000", kOffTheProgram),
    either_way("zero_optimization.stage3_gather_16bit_weights_on_model_save", kWholeCheckpoints),
    either_way("zero_optimization.stage3_gather_fp16_weights_on_model_save", kWholeCheckpoints),
    taken("zero_optimization.stage3_module_granularity_threshold", kInteger, "0", kOffTheProgram),
    either_way("zero_optimization.stage3_use_all_reduce_for_fetch_params", kSpeedAlone),
    either_way("zero_optimization.stage3_allgather_sequential", kSpeedAlone),
    taken("zero_optimization.stage3_partition_stream_chunk_size", kInteger, "0",
          "a rank draws and reads the share that it keeps, never the whole"),
    either_way("zero_optimization.memory_efficient_linear", kSpeedAlone),
    either_way("zero_optimization.override_module_apply",
               "weights are drawn by the seed and their place, whatever the stage"),
    either_way("zero_optimization.pipeline_loading_checkpoint", kWholeCheckpoints),
    either_way("zero_optimization.log_trace_cache_warnings", kOffTheProgram),
    either_way("zero_optimization.enable_sanity_checks",
               "the plan of gathers and the memory are always verified"),
    part("zero_optimization.mics_shard_size", kInteger, "--num-distributed-optimizer-instances",
         "data-parallel ranks / n; -1: one group of all"),
    either_way("zero_optimization.mics_hierarchical_params_gather", kSpeedAlone),
    only("1", "zero_optimization.zero_hpz_partition_size", kInteger,
         "there is no second copy of the parameters: mics_shard_size shares all states out within "
         "a group"),
    only_false("zero_optimization.zero_quantized_weights", kNoQuantised),
    only_false("zero_optimization.zero_quantized_nontrainable_weights", kNoQuantised),
    only_false("zero_optimization.zero_quantized_gradients", kNoQuantised),
    refused("zero_optimization.zeropp_loco_param",
            "weights and gradients are sent as they are: leave it out"),
    refused("zero_optimization.zenflow", "every step updates all weights: leave it out"),
    taken("zero_optimization.leaf_module", kAny, {}, kOffTheProgram),
    only_false("zero_optimization.save_muon_momentum_buffer_in_memory",
               "there is no such optimizer"),

    part("zero_optimization.offload_optimizer.device", kText, "--offload-optimizer-to",
         "nvme: to nvme_path; cpu: optimizer states lie in the host's memory and are updated there "
         "anyway; none"),
    part("zero_optimization.offload_optimizer.nvme_path", kText, "--offload-optimizer-to",
         "where the device is nvme"),
    part("zero_optimization.offload_optimizer.ratio", kReal, "--offload-fraction",
         "where the device is nvme"),
    either_way("zero_optimization.offload_optimizer.pin_memory", kStaging),
    taken("zero_optimization.offload_optimizer.buffer_count", kInteger, "4", kStaging),
    either_way("zero_optimization.offload_optimizer.pipeline", kSpeedAlone),
    either_way("zero_optimization.offload_optimizer.pipeline_read", kSpeedAlone),
    either_way("zero_optimization.offload_optimizer.pipeline_write", kSpeedAlone),
    either_way("zero_optimization.offload_optimizer.fast_init", kSpeedAlone),
    taken("zero_optimization.offload_optimizer.cpuadam_cores_perc", kReal, "0.8",
          "--threads-per-rank says how many threads a rank has, for all that it does"),
    only_false("zero_optimization.offload_optimizer.super_offload",
               "a step is made when all gradients are known"),
    part("zero_optimization.offload_param.device", kText, "--offload-parameters-to",
         "nvme: to nvme_path; cpu: weights and activations lie in the host's memory anyway; none"),
    part("zero_optimization.offload_param.nvme_path", kText, "--offload-parameters-to",
         "where the device is nvme"),
    either_way("zero_optimization.offload_param.pin_memory", kStaging),
    taken("zero_optimization.offload_param.buffer_count", kInteger, "5", kStaging),
    taken("zero_optimization.offload_param.buffer_size", kInteger, "100000000", kStaging),
    taken("zero_optimization.offload_param.max_in_cpu", kInteger, "1000000000", kStaging),
    taken("zero_optimization.cpu_offload", kSwitch, "false", kInMemory),
    taken("zero_optimization.cpu_offload_param", kSwitch, "false", kInMemory),
    taken("zero_optimization.cpu_offload_params", kSwitch, "false", kInMemory),
    either_way("zero_optimization.cpu_offload_use_pin_memory", kStaging),

    when("--offload-optimizer-to", flag("aio.block_size", kInteger, "--aio-block-size", "bytes")),
    when("--offload-optimizer-to", flag("aio.queue_depth", kInteger, "--aio-queue-depth")),
    taken("aio.thread_count", kInteger, "1", kOwnEngine),
    taken("aio.intra_op_parallelism", kInteger, "1", kOwnEngine),
    either_way("aio.single_submit", kOwnEngine),
    either_way("aio.overlap_events", kOwnEngine),
    only_false("aio.use_gds", kOwnEngine),

    when("--recompute-granularity full",
         part("activation_checkpointing.partition_activations", kSwitch,
              "--distribute-saved-activations",
              "with several tensor-parallel ranks, without --sequence-parallel")),
    either_way("activation_checkpointing.cpu_checkpointing", kRecomputed),
    either_way("activation_checkpointing.contiguous_memory_optimization", kRecomputed),
    taken("activation_checkpointing.number_checkpoints", kInteger, {}, kRecomputed),
    either_way("activation_checkpointing.synchronize_checkpoint_boundary", kRecomputed),
    taken("activation_checkpointing.profile", kSwitch, "false",
          "--timing-log-level 2 times the passes"),

    either_way("checkpoint.load_universal", kWholeCheckpoints),
    taken("checkpoint.tag_validation", kText, "Ignore Warn Fail",
          "all ranks save the same iteration"),
    only_false("checkpoint.use_node_local_storage",
               "the first rank writes the whole checkpoint: --save must be a place that all see"),
    either_way("checkpoint.parallel_write.pipeline_stage", kSpeedAlone),

    part("tensorboard.enabled", kSwitch, "--tensorboard-dir", "true: to output_path/job_name"),
    part("tensorboard.output_path", kText, "--tensorboard-dir", "where it is enabled"),
    part("tensorboard.job_name", kText, "--tensorboard-dir", "where it is enabled"),
    off("wandb",
        "nothing is sent to Weights & Biases: use tensorboard, and their program uploads it"),
    off("comet", "nothing is sent to Comet: use tensorboard"),
    off("csv_monitor", "metrics.jsonl in --save has the numbers of every iteration"),
    off("flops_profiler",
        "--log-throughput has TFLOP/s in the log line, and a plan's JSON the "
        "operations"),
    off("comms_logger", "phalanx plan lists the messages of every rank, and --trace times them"),
    either_way("timers.throughput.enabled", kTimes),
    either_way("timers.throughput.synchronized", kTimes),

    off("elasticity", "checkpoints are free of the layout: start again on other ranks"),
    off("autotuning", "phalanx plan shows what a setting takes, without a run"),
    off("eigenvalue", "weights are not quantised by their curvature"),
    off("progressive_layer_drop", "every step computes all layers"),
    off("curriculum_learning", kSamples),
    off("data_efficiency", kSamples),
    off("hybrid_engine", "phalanx generate generates"),
    off("nebula", "checkpoints are written to --save"),
    off("compile", "kernels are compiled already"),
    off("quantize_training",
        "products of 8-bit numbers are not available in this version of "
        "Phalanx"),
    refused("compression_training", "models are not pruned or quantised: leave it out"),
    refused("sparse_attention", "attention is dense or has a window (--window-size): leave it out"),
    refused("tensor_parallel", "give --tensor-model-parallel-size in its place"),
    refused("sequence_parallel_size",
            "give --context-parallel-size in its place, with --cp-comm-type a2a"),
    refused("pipeline", "give --pipeline-model-parallel-size in its place"),
};

std::string_view section_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot + 1);
}

std::string listed(std::string_view words) {
  std::string text;
  for (const auto word : words_of(words)) {
    text += fmt::format("{}`{}`", text.empty() ? "" : " or ", word);
  }
  return text;
}

std::string sentence_of(const Key& key) {
  const std::string flags = listed(key.flag);
  const std::string condition = key.when.empty() ? "" : fmt::format(" With `{}` alone.", key.when);
  switch (key.fate) {
    case Fate::kFlag:
    case Fate::kPart: {
      const std::string between = flags.empty() || key.text.empty() ? "" : ": ";
      return fmt::format("{}{}{}.{}", flags, between, key.text, condition);
    }
    case Fate::kTaken:
      return fmt::format("taken: {}.", key.text);
    case Fate::kOnly:
      return fmt::format("{} alone: {}.", listed(key.values), key.text);
    case Fate::kOff:
      return fmt::format("must not be enabled: {}.", key.text);
    case Fate::kRefused:
      return fmt::format("refused: {}.", key.text);
  }
  return "";
}

}  // namespace

std::span<const Key> keys() { return kKeys; }

const Key* find_key(std::string_view path) {
  const auto* const found = std::ranges::find(kKeys, path, &Key::path);
  return found == std::end(kKeys) ? nullptr : found;
}

bool is_section(std::string_view path) {
  return std::ranges::any_of(kKeys, [&](const Key& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) &&
           key.path[path.size()] == '.';
  });
}

std::optional<std::string> meant_by(std::string_view path) {
  const std::string section(section_of(path));
  std::vector<std::string> names;
  for (const Key& key : kKeys) {
    if (!key.path.starts_with(section) || key.fate == Fate::kRefused) continue;
    const std::string_view rest = key.path.substr(section.size());
    names.emplace_back(rest.substr(0, rest.find('.')));
  }
  auto found = nearest(path.substr(section.size()), names);
  if (found) *found = section + *found;
  return found;
}

std::string markdown_table() {
  // Neighbours with the same text share a line.
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Key& key : kKeys) {
    const std::string name = fmt::format("`{}`", key.path);
    const std::string sentence = sentence_of(key);
    if (!lines.empty() && lines.back().second == sentence) {
      lines.back().first += ", " + name;
    } else {
      lines.emplace_back(name, sentence);
    }
  }
  std::string text = "| key | what becomes of it |\n|---|---|\n";
  for (const auto& [names, sentence] : lines) {
    text += fmt::format("| {} | {} |\n", names, sentence);
  }
  return text;
}

}  // namespace phalanx::deepspeed
