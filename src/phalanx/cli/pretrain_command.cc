#include <fmt/core.h>

#include <cerrno>
#include <utility>

#include "phalanx/cli/checkpoint_arguments.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/family_commands.h"
#include "phalanx/cli/loaded_adapters.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/cli/pretrain.h"
#include "phalanx/cli/standard_io.h"
#include "phalanx/cli/training_run.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/rules/resolve.h"

namespace phalanx {
namespace {

void add_examples(FlagSet& flags) {
  flags.add_example(
      "phalanx pretrain gpt --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length "
      "128 --max-position-embeddings 128 --micro-batch-size 4 --train-iters 100 --lr 1e-3 "
      "--data-path DATA --vocab-file vocab.json --merge-file merges.txt --save RUN --save-interval "
      "50",
      "a small model on one rank");
  flags.add_example("phalanx pretrain gpt --yaml-cfg run.yaml --nproc 4", "flags from a file");
  flags.add_example("phalanx pretrain gpt FLAGS --print-yaml > run.yaml", "flags into a file");
}

}  // namespace

int run_pretrain(CommandIo& io, const Arguments& arguments) {
  return pretrain(io, named_family("phalanx pretrain", arguments));
}

int pretrain_family(std::shared_ptr<const ModelFamily> family, const Arguments& arguments) {
  StandardIo io;
  return pretrain(io, {::program_invocation_short_name, std::move(family), arguments});
}

std::unique_ptr<FlagSet> training_flags(const NamedFamily& named, TrainConfig& config) {
  use_family(named.family, config);
  auto own =
      std::make_unique<FlagSet>(named.command, fmt::format("Trains a {}.", named.family->title()));
  FlagSet& flags = *own;
  add_train_flags(flags, config);
  add_start_flags(flags, config);
  if (config.family == nullptr) add_examples(flags);
  flags.parse(
      named.arguments,
      [&] {
        use_family_defaults(flags, *named.family);
        // Last: a checkpoint has precedence over the family's defaults.
        use_checkpoint_arguments(flags, config);
        use_loaded_adapters(flags, config);
      },
      [&] { resolve(config, true); });
  return own;
}

int pretrain(CommandIo& io, const NamedFamily& named) {
  TrainConfig config;
  const auto environment = begin_process(io, config);
  const auto flags = training_flags(named, config);
  if (flags->prints_yaml()) {
    io.put(flags->to_yaml());
    return 0;
  }
  return run_training(io, environment, *flags, config);
}

}  // namespace phalanx
