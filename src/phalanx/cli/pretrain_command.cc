#include <fmt/core.h>

#include <cerrno>
#include <utility>

#include "phalanx/cli/checkpoint_arguments.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/family_commands.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/cli/pretrain.h"
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

int run_pretrain(const Arguments& arguments) {
  return pretrain(named_family("phalanx pretrain", arguments));
}

int pretrain_family(std::shared_ptr<const ModelFamily> family, const Arguments& arguments) {
  return pretrain({::program_invocation_short_name, std::move(family), arguments});
}

int pretrain(const NamedFamily& named) {
  TrainConfig config;
  const auto environment = begin_process(config);
  use_family(named.family, config);
  FlagSet flags(named.command, fmt::format("Trains a {}.", named.family->title()));
  add_train_flags(flags, config);
  add_start_flags(flags, config);
  if (config.family == nullptr) add_examples(flags);
  flags.parse(
      named.arguments,
      [&] {
        use_family_defaults(flags, *named.family);
        // Last: a checkpoint has precedence over the family's defaults.
        use_checkpoint_arguments(flags, config);
      },
      [&] { resolve(config, true); });
  if (flags.prints_yaml()) {
    fmt::print("{}", flags.to_yaml());
    return 0;
  }
  return run_training(environment, flags, config);
}

}  // namespace phalanx
