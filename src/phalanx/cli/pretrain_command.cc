#include <fmt/core.h>

#include "phalanx/base/error.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_name.h"
#include "phalanx/cli/train_flags.h"
#include "phalanx/train/trainer.h"

namespace phalanx {

int run_pretrain(const Arguments& arguments) {
  TrainConfig config;
  Flags flags("phalanx pretrain gpt", "Trains a GPT.");
  add_train_flags(flags, config);
  flags.section("Start");
  flags.add("--nproc", config.world_size, "Ranks: the run starts this many on this machine");
  flags.parse(behind_model_name("phalanx pretrain", arguments));
  // The checkpoint keeps what the flags came to, not what was typed.
  resolve(config, true);
  config.arguments = flags.values();
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
