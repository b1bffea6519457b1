#include <fmt/core.h>

#include <utility>

#include "phalanx/cli/checkpoint_arguments.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/cli/pretrain.h"
#include "phalanx/cli/training_run.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/train/flags.h"

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
  NamedFamily named = named_family("phalanx pretrain", arguments);
  return pretrain_family(std::move(named.family), named.arguments);
}

int pretrain_family(std::shared_ptr<const ModelFamily> family, const Arguments& arguments) {
  TrainConfig config;
  const auto environment = begin_process(config);
  config.model.family = family->name();
  if (find_family(family->name()) == nullptr) config.family = family;
  FlagSet flags(fmt::format("phalanx pretrain {}", family->name()),
                fmt::format("Trains a {}.", family->title()));
  add_train_flags(flags, config);
  add_start_flags(flags, config);
  if (config.family == nullptr) add_examples(flags);
  flags.parse(
      arguments,
      [&] {
        use_family_defaults(flags, *family);
        // Behind: what a checkpoint says counts more than what is usual.
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
