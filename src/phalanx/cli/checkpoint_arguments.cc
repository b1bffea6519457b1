#include "phalanx/cli/checkpoint_arguments.h"

#include <filesystem>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/train/flags.h"
#include "phalanx/train/run_checkpoint.h"

namespace phalanx {

void use_checkpoint_arguments(FlagSet& flags, const TrainConfig& config) {
  const RunConfig& run = config.run;
  if (!run.use_checkpoint_args || (run.load.empty() && run.pretrained_checkpoint.empty())) return;
  const auto directory = run.ckpt_step > 0        ? directory_of_iteration(run.load, run.ckpt_step)
                         : begins_pretrained(run) ? std::filesystem::path(run.pretrained_checkpoint)
                                                  : std::filesystem::path(run.load);
  const auto checkpoint = CheckpointReader::open_if_any(directory, Verify::kNo);
  if (!checkpoint) {
    if (flags.given("--num-layers")) return;
    throw InputMissingError("--use-checkpoint-args: {} has no checkpoint", directory.string());
  }
  const auto& arguments = checkpoint->manifest().arguments;
  // The checkpoint's switch for an activation would stand against one that is named here.
  const auto is_said_otherwise = [&](const TrainFlag& flag) {
    return (flag.spec.name == "--swiglu" || flag.spec.name == "--squared-relu") &&
           flags.given("--activation-func");
  };
  for (const TrainFlag& flag : train_flags()) {
    if (is_said_otherwise(flag)) continue;
    const auto said = arguments.find(std::string(flag.spec.name));
    if (describes_model(flag) && said != arguments.end()) {
      flags.set_default(flag.spec.name, said->second);
    }
  }
  if (config.tokenizer.tokenizer_type == "NullTokenizer") return;
  for (const char* flag : {"--vocab-file", "--merge-file", "--tokenizer-model"}) {
    if (const auto kept = checkpoint->copy_of(flag)) flags.set_default(flag, kept->string());
  }
}

}  // namespace phalanx
