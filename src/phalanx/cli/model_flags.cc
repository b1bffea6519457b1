#include "phalanx/cli/model_flags.h"

#include "phalanx/ops/cpu/precision.h"
#include "phalanx/train/family.h"
#include "phalanx/train/flags.h"
#include "phalanx/train/run_data.h"
#include "phalanx/train/run_inputs.h"

namespace phalanx {

TrainConfig checkpoint_config(const CheckpointReader& checkpoint) {
  TrainConfig config;
  const auto& arguments = checkpoint.manifest().arguments;
  if (const auto family = arguments.find(std::string(kFamilyArgument)); family != arguments.end()) {
    config.model.family = family->second;
  }
  FlagSet flags("the checkpoint's arguments", "");
  add_train_flags(flags, config);
  for (const auto& [name, value] : arguments) flags.set_default(name, value);
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
  flags.add({.name = "--threads-per-rank",
             .help = "CPU threads (0: all usable cores)",
             .range = from_to(0, 1024)},
            &threads_);
  flags.add({.name = "--matmul-precision",
             .help = "How bf16 matrices are multiplied",
             .choices = "auto fp32 bf16 amx"},
            &matmul_precision_);
  flags.add({.name = "--vocab-file", .help = "Instead of the checkpoint's", .value_name = "FILE"},
            &vocab_file_);
  flags.add({.name = "--merge-file", .help = "Instead of the checkpoint's", .value_name = "FILE"},
            &merge_file_);
  flags.add(
      {.name = "--tokenizer-model", .help = "Instead of the checkpoint's", .value_name = "PATH"},
      &tokenizer_model_);
  flags.add({.name = "--allow-overcommit",
             .help = "Begin although the memory is above what this machine has available"},
            &allow_overcommit_);
}

TrainedModel ModelFlags::open() const {
  auto checkpoint = CheckpointReader::open(load_, Verify::kWeights);
  TrainConfig config = for_inference(checkpoint_config(checkpoint));
  use_kept_tokenizer(config, checkpoint);
  if (!vocab_file_.empty()) config.tokenizer.vocab_file = vocab_file_;
  if (!merge_file_.empty()) config.tokenizer.merge_file = merge_file_;
  if (!tokenizer_model_.empty()) config.tokenizer.tokenizer_model = tokenizer_model_;
  // Those that the model was trained with, where they can be had.
  const std::string& trained = checkpoint.manifest().matmul_precision;
  const bool follows = matmul_precision_ == "auto" && cpu::has_products(trained);
  config.model.matmul_precision = follows ? trained : matmul_precision_;
  config.layout.threads_per_rank = threads_;
  config.run.allow_overcommit = allow_overcommit_;
  resolve(config, false);

  auto tokenizer = make_tokenizer(config.tokenizer);
  const GptConfig model = gpt_config(config, tokenizer->vocab_size());
  const auto products = cpu::choose_products(config.model.matmul_precision, config.model.bf16);
  return {.checkpoint = std::move(checkpoint),
          .config = std::move(config),
          .tokenizer = std::move(tokenizer),
          .model = model,
          .products = products.products};
}

}  // namespace phalanx
