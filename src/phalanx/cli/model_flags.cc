#include "phalanx/cli/model_flags.h"

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/base_checkpoint.h"
#include "phalanx/cli/chosen_device.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/named_devices.h"
#include "phalanx/rehearsal/memory_check.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/run_inputs.h"
#include "phalanx/start/run_data.h"
#include "phalanx/tasks/classify_family.h"
#include "phalanx/tasks/classify_options.h"

namespace phalanx {

TrainConfig checkpoint_config(const CheckpointReader& checkpoint,
                              const std::shared_ptr<const ModelFamily>& own) {
  TrainConfig config;
  const auto& arguments = checkpoint.manifest().arguments;
  if (own != nullptr) {
    use_family(own, config);
    check_family(config, arguments);
  }
  if (const auto family = arguments.find(std::string(kFamilyArgument)); family != arguments.end()) {
    config.model.family = family->second;
  }
  if (config.model.family == kClassifyFamily) {
    config.family = classify_family();
    config.model.family = "bert";  // it has the flags of a BERT
  }
  FlagSet flags("the checkpoint's arguments", "");
  add_train_flags(flags, config);
  for (const auto& [name, value] : arguments) flags.set_default(name, value);
  if (config.family != nullptr) {
    config.family_options = ClassifyOptions::from_text(arguments).to_text();
  }
  return config;
}

void ModelFlags::add_load_to(FlagSet& flags) {
  flags.add({.name = "--load",
             .help = "Save directory or one iteration's",
             .value_name = "DIR",
             .required = true},
            &load_);
}

void ModelFlags::add_others_to(FlagSet& flags) {
  flags.add({.name = "--device",
             .help = "Where the model computes; devices with a name are for plans, the emulated "
                     "CUDA device is for tests of programs",
             .choices = kDeviceNames},
            &device_);
  flags.add({.name = "--threads-per-rank",
             .help = "CPU threads (0: all usable cores)",
             .range = from_to(0, 1024)},
            &threads_);
  flags.add({.name = "--lora-base",
             .help = "Where the base of the adapters at --load is, if it was moved",
             .value_name = "DIR"},
            &lora_base_);
  flags.add({.name = "--matmul-precision",
             .help = "How bf16 matrices are multiplied",
             .choices = "auto fp32 bf16 amx2"},
            &matmul_precision_);
  flags.add({.name = "--vocab-file", .help = "Instead of the checkpoint's", .value_name = "FILE"},
            &vocab_file_);
  flags.add({.name = "--merge-file", .help = "Instead of the checkpoint's", .value_name = "FILE"},
            &merge_file_);
  flags.add(
      {.name = "--tokenizer-model", .help = "Instead of the checkpoint's", .value_name = "PATH"},
      &tokenizer_model_);
  flags.add({.name = "--context-parallel-size",
             .type = FlagType::kInteger,
             .state = FlagState::kSatisfied,
             .reason = "all rows of a text are on every rank",
             .satisfied_by = "1",
             .otherwise = "only training shares the rows of a text out among ranks; leave the flag "
                          "out, whatever the model was trained with"});
  flags.add({.name = "--allow-overcommit",
             .help = "Begin although the memory is above what this machine has available"},
            &allow_overcommit_);
}

void ModelFlags::add_layout_to(FlagSet& flags) {
  flags.add({.name = "--tensor-model-parallel-size",
             .help = "Ranks, threads of this process, that the model is cut over",
             .range = from_to(1, 1024)},
            &tensor_parallel_);
  flags.add({.name = "--dtype",
             .help = "Of weights and cached keys and values (default: as it was trained)",
             .choices = "fp32 bf16"},
            &dtype_);
}

TrainedModel ModelFlags::open(Verify verify) const {
  TrainedModel trained = open_any(verify);
  if (!trained.is_classifier()) return trained;
  throw ConfigError(
      "--load {}: a classifier of texts has no tokens to say: phalanx classify tells what it "
      "predicts, phalanx score how good it is",
      load_);
}

TrainedModel ModelFlags::open_classifier() const {
  TrainedModel trained = open_any(Verify::kWeights);
  if (trained.is_classifier()) return trained;
  throw ConfigError(
      "--load {}: a {} is no classifier: phalanx finetune classify makes one, and phalanx import "
      "hf takes a BertForSequenceClassification",
      load_, family_of(trained.config).title());
}

bool TrainedModel::is_classifier() const { return family_of(config).name() == kClassifyFamily; }

TrainedModel ModelFlags::open_any(Verify verify) const {
  auto checkpoint = open_with_base(load_, verify, lora_base_);
  TrainConfig config = for_inference(checkpoint_config(checkpoint, own_));
  use_kept_tokenizer(config, checkpoint);
  if (!vocab_file_.empty()) config.tokenizer.vocab_file = vocab_file_;
  if (!merge_file_.empty()) config.tokenizer.merge_file = merge_file_;
  if (!tokenizer_model_.empty()) config.tokenizer.tokenizer_model = tokenizer_model_;
  config.layout.device = device_;
  // The products that the model was trained with, if this processor has them.
  const std::string& trained = checkpoint.manifest().matmul_precision;
  const bool follows = matmul_precision_ == "auto" && device_ == "cpu" && dtype_.empty() &&
                       cpu::has_products(trained);
  config.model.matmul_precision = follows ? trained : matmul_precision_;
  if (!dtype_.empty()) {
    config.model.bf16 = dtype_ == "bf16";
    config.model.fp16 = false;
    config.model.fp32_residual_connection &= config.model.bf16;
  }
  if (config.experts.num_experts > 0 && tensor_parallel_ > 1) {
    throw ConfigError(
        "--tensor-model-parallel-size {}: the model at --load {} has experts, which are not cut "
        "outside of training in this version of Phalanx; leave the flag out",
        tensor_parallel_, load_);
  }
  config.layout.tensor_model_parallel_size = tensor_parallel_;
  config.layout.world_size = tensor_parallel_;
  config.layout.threads_per_rank = threads_;
  config.run.allow_overcommit = allow_overcommit_;
  resolve(config, false);
  const DeviceChoice device =
      chosen_device(config, only_plans_ ? DeviceUse::kPlan : DeviceUse::kCompute);

  auto tokenizer = make_tokenizer(config.tokenizer);
  const auto language = family_of(config).language_model(config, tokenizer->vocab_size());
  const GptConfig model = language ? *language : gpt_config(config, tokenizer->vocab_size());
  return {.checkpoint = std::move(checkpoint),
          .config = std::move(config),
          .tokenizer = std::move(tokenizer),
          .model = model,
          .goes_on = language.has_value(),
          .device = device};
}

void expect_language_model(const ModelCommand& command, const TrainedModel& trained) {
  if (trained.goes_on) return;
  throw ConfigError(
      "a {} does not go on with a text, which {} takes a model for: its losses are told by the "
      "training program, --load DIR --skip-train --eval-iters N",
      command.family->title(), command.name);
}

std::unique_ptr<CachedModel> plan_model(const TrainedModel& trained, CachedModel::Sizes sizes) {
  return std::make_unique<CachedModel>(trained.model, trained.device,
                                       static_cast<int>(trained.config.layout.threads_per_rank),
                                       std::move(sizes));
}

void load_model(const TrainedModel& trained, CachedModel& model, std::string_view remedy) {
  const GenerationMemory& memory = model.memory();
  check_memory(trained.config.run.allow_overcommit, memory.total() * memory.ranks, trained.device,
               remedy);
  model.load(trained.checkpoint);
}

}  // namespace phalanx
