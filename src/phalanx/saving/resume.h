#pragma once
// Whether a run may go on with a checkpoint, by what both say of their flags.

#include <string>
#include <string_view>

#include "phalanx/checkpoint/manifest.h"
#include "phalanx/optim/parameter_schedule.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Whether --allow-changed permits another value than the checkpoint's.
bool is_allowed_to_change(const RunConfig& run, std::string_view flag);

// ConfigError (78), a line for each flag whose value the checkpoint contradicts, with both values;
// warnings for those that may change (ResumeClass; values are compared, not their spelling). Of
// schedules what the flags come to is compared: equal, or --override-opt_param-scheduler, or
// --use-checkpoint-opt_param-scheduler, which returns the checkpoint's. Where the optimizer's state
// is left in the checkpoint (--no-load-optim), optimizer and schedules may be others and begin
// anew. A new run from the weights (--finetune) must have their shape and tokenizer alone.
ParameterSchedule check_resume(const TrainConfig& config, const Manifest& manifest);

// What --matmul-precision comes to in a run that goes on: the checkpoint's family. ConfigError
// where the flag names another, or this processor has not the family, unless --allow-changed
// matmul-precision: then the flag's, with a warning.
std::string resumed_precision(const TrainConfig& config, const Manifest& manifest);

}  // namespace phalanx
