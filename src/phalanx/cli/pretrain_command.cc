#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/cli/train_flags.h"
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

}  // namespace

int run_pretrain(const Arguments& arguments) {
  TrainConfig config;
  Flags flags("phalanx pretrain gpt", "Trains a GPT.");
  add_train_flags(flags, config);
  flags.section("Start");
  flags.add("--nproc", config.layout.world_size, "Ranks: the run starts this many on this machine");
  flags.parse(behind_model_name("phalanx pretrain", arguments));
  // The checkpoint keeps what the flags came to, not what was typed.
  resolve(config, true);
  config.run.arguments = flags.values();
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
