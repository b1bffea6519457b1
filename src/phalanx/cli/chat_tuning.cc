#include "phalanx/cli/chat_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/input_path.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/numeric.h"
#include "phalanx/chat_data/conversation_tokens.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/cli/answer_prompts.h"
#include "phalanx/cli/chat_sizes.h"
#include "phalanx/cli/checkpoint_arguments.h"
#include "phalanx/cli/loaded_adapters.h"
#include "phalanx/cli/training_run.h"
#include "phalanx/families/conversation_sources.h"
#include "phalanx/families/family.h"
#include "phalanx/inference/run_answers.h"
#include "phalanx/ops/driver_memory.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/rehearsal/memory_check.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/data_settings.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAdapterRank = 16;
constexpr const char* kRate = "2e-5";
constexpr const char* kAdapterRate = "2e-4";
constexpr double kWarmupShare = 0.03;
constexpr std::int64_t kPlannedSequence = 1024;
constexpr auto kMicroBatches = std::to_array<std::int64_t>({16, 8, 4, 2});

bool is_same_directory(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

// Whether the ranks of this machine fit into its memory, or a rank into its device's.
bool fits(const TrainConfig& resolved, const Tokenizer& tokenizer, const DeviceChoice& kernels) {
  const auto model = make_model(resolved, tokenizer.vocab_size());
  auto plans = plan_ranks(resolved, *model, step_programs(resolved), kernels);
  reserve_answers(plans, resolved, tokenizer.vocab_size(), kernels);
  std::int64_t device = 0;
  for (const RankPlan& plan : plans) device = std::max(device, device_bytes(plan.memory));
  if (kernels.named != nullptr) {
    return device + kDriverBytesOfDevice <= kernels.named->memory_bytes;
  }
  if (const auto free = kernels.free_bytes()) return device <= *free;
  return process_bytes(plans) <= available_memory().bytes;
}

}  // namespace

ChatTuning::ChatTuning(TrainConfig& config) : config_(config) {
  config.model.family = "gpt";
  config.data.sft = true;
  config.data.full_validation = true;
  config.run.use_checkpoint_args = true;
  config.run.log_interval = 10;
  config.optimizer.lr_decay_style = "cosine";
}

void ChatTuning::add_flags(FlagSet& flags) {
  flags.section("Fine-tuning");
  flags.add({.name = "--load",
             .help = "The model to begin with: a checkpoint, or a folder of Hugging Face's, which "
                     "is imported to SAVE/base; a run that is in --save goes on",
             .value_name = "DIR",
             .required = true},
            &load_);
  flags.add({.name = "--data",
             .help = "Files of conversations, a line of JSON each: as --data-path, or beside "
                     "--valid-data-path as --train-data-path",
             .value_name = "FILE",
             .excludes = "--data-path --train-data-path"},
            &data_);
  flags.add({.name = "--epochs",
             .help = "How often the conversations are read",
             .range = from_to(1, 1e6),
             .excludes = "--train-iters --train-samples"},
            &epochs_);
  flags.add({.name = "--held-out",
             .help = "The share of the conversations that is evaluated and not trained",
             .range = share_below_one(),
             .excludes = "--split --valid-data-path --train-data-path"},
            &held_out_);
  flags.add({.name = "--lora",
             .help = "Low-rank adapters are trained, of --lora-rank 16 and --lora-alpha twice the "
                     "rank unless given, and the model stays as it is"},
            &lora_);
  flags.add({.name = "--use-dora",
             .state = FlagState::kRefused,
             .reason = "magnitudes beside the adapters are not there: give --lora"});
  flags.add({.name = "--dpo",
             .state = FlagState::kRefused,
             .reason = "preferences are not trained: give conversations with the chosen answers"});
  add_other_train_flags(flags, config_);
}

void ChatTuning::set_defaults(FlagSet& flags) {
  RunConfig& run = config_.run;
  if (load_.empty()) {
    // Users are asked for the model alone, not for what is known from it.
    for (const char* flag :
         {"--num-layers", "--hidden-size", "--num-attention-heads", "--max-position-embeddings",
          "--seq-length", "--micro-batch-size", "--lr", "--train-iters"}) {
      flags.set_default(flag, "1");
    }
    return name_data(flags);
  }
  if (!run.save.empty() && is_same_directory(load_, run.save)) {
    throw ConfigError(
        "--load {} is --save itself: name the model that the run began with; a run that is in "
        "--save goes on by itself",
        load_);
  }
  base_.emplace(load_, run.save);
  run.load = run.save;
  run.pretrained_checkpoint = base_->checkpoint().string();
  goes_on_ = !run.save.empty() && !begins_pretrained(run);
  if (!goes_on_ && base_->must_be_imported()) {
    base_->set_defaults(flags);
    use_loaded_adapters(flags, config_, base_->arguments());
  } else {
    use_checkpoint_arguments(flags, config_);
    use_loaded_adapters(flags, config_);
  }
  if (goes_on_) take_sizes_of(flags, run.save);
  name_data(flags);
  set_precision(flags);
  set_adapters(flags);
  set_rates(flags);
  // Known only from the data.
  if (!goes_on_) flags.set_default("--micro-batch-size", "1");
  if (!flags.given("--train-samples")) flags.set_default("--train-iters", "1");
  if (!run.save.empty()) {
    flags.set_default("--save-interval", "1");
    flags.set_default("--data-cache-path", (fs::path(run.save) / "data-cache").string());
  }
}

// What an earlier start has chosen holds: the memory of the machine may be another one now.
void ChatTuning::take_sizes_of(FlagSet& flags, const std::string& save) {
  const auto checkpoint = CheckpointReader::open_if_any(save, Verify::kNo);
  if (!checkpoint) return;
  saved_iteration_ = checkpoint->manifest().iteration;
  const auto& arguments = checkpoint->manifest().arguments;
  const auto sft = arguments.find("--sft");
  if (sft == arguments.end() || sft->second != "true") {
    throw ConfigError(
        "--save {} holds a run that trains no conversations: --save elsewhere, or name that run "
        "with --load",
        save);
  }
  for (const char* flag : {"--micro-batch-size", "--global-batch-size"}) {
    const auto said = arguments.find(flag);
    if (said != arguments.end()) flags.set_default(flag, said->second);
  }
}

void ChatTuning::name_data(const FlagSet& flags) {
  DataConfig& data = config_.data;
  if (!data_.empty())
    (data.valid_data_path.empty() ? data.data_path : data.train_data_path) = data_;
  if (!data.train_data_path.empty() || flags.given("--split")) return;
  data.split = fmt::format("{},{},0", 100.0 * (1.0 - held_out_), 100.0 * held_out_);
}

// 16 bits if the model has them.
void ChatTuning::set_precision(FlagSet& flags) const {
  if (goes_on_) return;
  const bool is_fp16 = flags.given("--fp16") && config_.model.fp16;
  flags.set_default("--bf16", base_->is_half() && !is_fp16 ? "true" : "false");
  flags.set_default("--fp16", "false");
}

void ChatTuning::set_adapters(FlagSet& flags) const {
  if (lora_ && config_.lora.rank == 0)
    flags.set_default("--lora-rank", fmt::to_string(kAdapterRank));
  if (config_.lora.rank == 0) return;
  if (!config_.lora.alpha) flags.set_default("--lora-alpha", fmt::to_string(2 * config_.lora.rank));
}

void ChatTuning::set_rates(FlagSet& flags) const {
  flags.set_default("--lr", config_.lora.rank > 0 ? kAdapterRate : kRate);
  if (flags.given("--lr-warmup-iters") || flags.given("--lr-warmup-samples")) return;
  flags.set_default("--lr-warmup-fraction", fmt::to_string(kWarmupShare));
}

void ChatTuning::check_start(const FlagSet& flags, bool for_training) const {
  if (for_training && config_.run.save.empty()) {
    throw ConfigError("--save must be given: a directory for the checkpoints of this run");
  }
  for (const char* flag : {"--finetune", "--pretrained-checkpoint"}) {
    if (!flags.given(flag)) continue;
    throw ConfigError(
        "{}: finetune chat begins a new run from --load, and goes on with one that is in --save: "
        "leave the flag out",
        flags.source(flag));
  }
  for (const std::string& file : training_files()) {
    const std::string fault = input_fault(file);
    if (!fault.empty()) throw InputMissingError("--data {}: {}", file, fault);
  }
}

void ChatTuning::settle(const FlagSet& flags, bool for_training, const Kernels& kernels) {
  check_start(flags, for_training);
  const auto tokenizer = make_tokenizer(config_.tokenizer);
  if (!flags.given("--seq-length") && !goes_on_) choose_sequence(*tokenizer);
  choose_batches(flags, *tokenizer, for_training, kernels);
  choose_prompts(flags, *tokenizer, for_training);
  resolve(config_, for_training);
}

std::vector<std::string> ChatTuning::training_files() const {
  const RunDataPaths paths = data_paths(config_.data);
  if (paths.common) return paths.common->prefixes;
  const auto& own = paths.by_split[static_cast<std::size_t>(SplitKind::kTrain)];
  return own ? own->prefixes : std::vector<std::string>();
}

void ChatTuning::choose_sequence(const Tokenizer& tokenizer) {
  DataConfig& data = config_.data;
  const std::vector<std::string> files = training_files();
  if (files.empty()) {
    data.seq_length = std::min(kPlannedSequence, config_.model.max_position_embeddings);
    notes_.push_back(
        fmt::format("the plan is of samples of {} tokens: neither --data nor --seq-length is given",
                    data.seq_length));
    return;
  }
  const IndexCache cache(data.data_cache_path);
  const auto options = conversation_options(data, config_.tokenizer, tokenizer);
  std::vector<std::int64_t> lengths;
  for (const std::string& file : files) {
    const auto tokens = ConversationTokens::read(
        file, tokenizer, options, data.data_cache_path.empty() ? nullptr : &cache, [] {});
    for (std::int64_t i = 0; i < tokens->size(); ++i) lengths.push_back(tokens->entry(i).tokens);
  }
  if (lengths.empty()) {
    throw DataError("--data {}: it has no conversation that can be trained", files.front());
  }
  data.seq_length = chosen_sequence(lengths, config_.model.max_position_embeddings);
  notes_.push_back(fmt::format(
      "sequence length {}: {} of {} conversations have no more tokens, the longest has {} "
      "(--seq-length)",
      data.seq_length, format_count(fitting(lengths, data.seq_length)),
      format_count(std::ssize(lengths)), format_count(std::ranges::max(lengths))));
}

std::int64_t ChatTuning::samples_of_epoch(const TrainConfig& resolved,
                                          const Tokenizer& tokenizer) const {
  const RunDataPaths paths = data_paths(resolved.data);
  const auto& own = paths.by_split[static_cast<std::size_t>(SplitKind::kTrain)];
  if (!paths.common && !own) return 0;
  const IndexCache cache(resolved.data.data_cache_path);
  const auto sources = family_of(resolved).sources(
      resolved,
      {.seed = static_cast<std::uint32_t>(resolved.run.seed), .cache = &cache, .is_quiet = true},
      tokenizer);
  SourceRequest request{.kind = SplitKind::kTrain};
  if (paths.common) request.split = Split(resolved.data.split);
  const auto source = sources->make(paths.common ? *paths.common : *own, request);
  return source ? source->size() : 0;
}

void ChatTuning::choose_batches(const FlagSet& flags, const Tokenizer& tokenizer, bool for_training,
                                const Kernels& kernels) {
  LayoutConfig& layout = config_.layout;
  TrainConfig probe = config_;
  resolve(probe, for_training);
  const std::int64_t samples = samples_of_epoch(probe, tokenizer);
  const bool varies =
      flags.given("--rampup-batch-size") || flags.given("--step-batch-size-schedule");
  if (layout.global_batch_size == 0 && !varies) {
    layout.global_batch_size = chosen_batch(samples, samples_per_microbatch(probe.layout));
  }
  if (!flags.given("--micro-batch-size") && !goes_on_ && !varies) {
    choose_micro_batch(flags, tokenizer, for_training, kernels);
  }
  choose_length(flags, samples);
}

// The largest that divides the batch and fits.
void ChatTuning::choose_micro_batch(const FlagSet& flags, const Tokenizer& tokenizer,
                                    bool for_training, const Kernels& kernels) {
  LayoutConfig& layout = config_.layout;
  layout.micro_batch_size = 1;
  if (!kernels) {
    notes_.emplace_back("microbatches of 1 sample: give --micro-batch-size where more fit");
    return;
  }
  for (const std::int64_t size : kMicroBatches) {
    TrainConfig probe = config_;
    probe.layout.micro_batch_size = size;
    if (!flags.given("--answer-prompts")) probe.run.answer_prompts = own_prompts(flags);
    if (layout.global_batch_size % samples_per_microbatch(probe.layout) != 0) continue;
    resolve(probe, for_training);
    if (!fits(probe, tokenizer, kernels(probe))) continue;
    layout.micro_batch_size = size;
    return;
  }
}

void ChatTuning::choose_length(const FlagSet& flags, std::int64_t samples) {
  RunConfig& run = config_.run;
  const LayoutConfig& layout = config_.layout;
  if (samples == 0) return;
  const BatchSchedule batches = batch_schedule(config_);
  const std::int64_t of_epoch = batches.iterations_for(samples);
  if (!flags.given("--train-iters") && !flags.given("--train-samples")) {
    run.train_iters = batches.iterations_for(epochs_ * samples);
    const std::string batch = batches.pieces().size() == 1
                                  ? std::to_string(batches.last())
                                  : fmt::format("{} to {}", batches.smallest(), batches.largest());
    notes_.push_back(fmt::format(
        "{} epoch{} of {} sample{}: {} iterations of {}, in microbatches of {}", epochs_,
        epochs_ == 1 ? "" : "s", format_count(samples), samples == 1 ? "" : "s",
        format_count(run.train_iters), batch, layout.micro_batch_size));
  }
  const std::int64_t interval = chosen_interval(of_epoch);
  if (!flags.given("--eval-interval")) run.eval_interval = interval;
  if (!flags.given("--save-interval") && !run.save.empty()) run.save_interval = interval;
  if (!flags.given("--keep-last")) run.keep_last = std::max(run.keep_last, epochs_);
  const DataConfig& data = config_.data;
  const bool has_validation =
      !data.valid_data_path.empty() ||
      (data.train_data_path.empty() && (flags.given("--split") || held_out_ > 0.0));
  if (has_validation) return;
  config_.data.full_validation = false;
  if (!flags.given("--eval-iters")) run.eval_iters = 0;
}

// The first rank answers, where it has the whole model; each start asks the same.
std::string ChatTuning::own_prompts(const FlagSet& flags) const {
  const LayoutConfig& layout = config_.layout;
  const RunConfig& run = config_.run;
  if (flags.given("--answer-prompts") || ranks_of_model(layout) > 1 || zero_stage(layout) == 3 ||
      layout.device != "cpu" || (run.eval_iters == 0 && !config_.data.full_validation)) {
    return {};
  }
  return fs::path(run.save) / "answer_prompts.jsonl";
}

void ChatTuning::choose_prompts(const FlagSet& flags, const Tokenizer& tokenizer,
                                bool for_training) {
  const std::string file = own_prompts(flags);
  if (file.empty()) return;
  bool is_there = true;
  if (goes_on_) {
    is_there = path_exists(file);
  } else if (for_training) {  // a plan writes nothing
    is_there = write_answer_prompts(config_, tokenizer, file);
  }
  if (is_there) config_.run.answer_prompts = file;
}

}  // namespace phalanx
