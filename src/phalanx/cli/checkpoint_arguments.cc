#include "phalanx/cli/checkpoint_arguments.h"

#include <filesystem>

#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/train/flags.h"

namespace phalanx {

void use_checkpoint_arguments(FlagSet& flags, const RunConfig& run) {
  if (!run.use_checkpoint_args || run.load.empty()) return;
  const auto directory = run.ckpt_step > 0 ? directory_of_iteration(run.load, run.ckpt_step)
                                           : std::filesystem::path(run.load);
  const auto checkpoint = CheckpointReader::open_if_any(directory, Verify::kNo);
  if (!checkpoint) return;
  const auto& arguments = checkpoint->manifest().arguments;
  for (const TrainFlag& flag : train_flags()) {
    const auto said = arguments.find(std::string(flag.spec.name));
    if (describes_model(flag) && said != arguments.end()) {
      flags.set_default(flag.spec.name, said->second);
    }
  }
}

}  // namespace phalanx
