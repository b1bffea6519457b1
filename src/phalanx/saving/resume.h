#pragma once
// Compares a run's flags with a checkpoint's: whether the run may resume from it.

#include <string>
#include <string_view>

#include "phalanx/checkpoint/manifest.h"
#include "phalanx/optim/parameter_schedule.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Whether --allow-changed permits another value than the checkpoint's.
bool is_allowed_to_change(const RunConfig& run, std::string_view flag);

// ConfigError (78), with a line for each flag whose value contradicts the checkpoint's, with both
// values; warnings for flags that may change (ResumeClass; values are compared, not their
// spelling). The schedules that the flags result in must be equal, unless
// --override-opt_param-scheduler is given, or --use-checkpoint-opt_param-scheduler, which returns
// the checkpoint's. With --no-load-optim the optimizer and the schedules may differ and begin anew.
// With --finetune only the shapes and the tokenizer must agree.
ParameterSchedule check_resume(const TrainConfig& config, const Manifest& manifest);

// ConfigError where the checkpoint was made with another family of products than `products`; with
// --allow-changed matmul-precision a warning.
void check_products(const TrainConfig& config, const Manifest& manifest, std::string_view products);

// The value of --matmul-precision for a run that resumes: the checkpoint's family. ConfigError
// where the flag names another one or this processor does not have the family; with --allow-changed
// matmul-precision the flag's family and a warning.
std::string resumed_precision(const TrainConfig& config, const Manifest& manifest);

}  // namespace phalanx
