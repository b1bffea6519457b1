#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/checkpoint_arguments.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/train/flags.h"
#include "phalanx/train/trainer.h"

namespace phalanx {
namespace {

// torchrun and Slurm count how often they have started a job again.
std::int64_t restarts_from_environment() {
  std::int64_t most = 0;
  for (const char* name : {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"}) {
    const char* const text = std::getenv(name);
    if (text == nullptr || *text == '\0') continue;
    std::int64_t count = 0;
    const std::string_view digits(text);
    const auto [end, fault] = std::from_chars(digits.begin(), digits.end(), count);
    if (fault != std::errc{} || end != digits.end() || count < 0) {
      throw UsageError("the environment's {} is {}, not a count", name, text);
    }
    most = std::max(most, count);
  }
  return most;
}

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
  TrainConfig config;
  FlagSet flags("phalanx pretrain gpt", "Trains a GPT.");
  add_train_flags(flags, config);
  flags.section("Start");
  flags.add({.name = "--nproc",
             .help = "Ranks: the run starts this many on this machine",
             .range = from_to(1, 1048576)},
            &config.layout.world_size);
  flags.add_yaml();
  add_examples(flags);
  flags.parse(
      behind_model_name("phalanx pretrain", arguments),
      [&] { use_checkpoint_arguments(flags, config); }, [&] { resolve(config, true); });
  if (flags.prints_yaml()) {
    fmt::print("{}", flags.to_yaml());
    return 0;
  }
  for (const std::string& note : flags.notes()) log_info("{}", note);
  config.run.restarts = restarts_from_environment();
  switch (pretrain_gpt(std::move(config))) {
    case RunEnd::kFinished:
      return 0;
    case RunEnd::kPreempted:
      return static_cast<int>(ErrorCode::kPreempted);
    case RunEnd::kStopped:
      return static_cast<int>(ErrorCode::kTemporary);
  }
  return static_cast<int>(ErrorCode::kInternal);
}

}  // namespace phalanx
