#include "phalanx/flag_table/reasons.h"
#include "phalanx/flag_table/sections.h"
#include "phalanx/flag_table/unbound.h"

namespace phalanx {
namespace {

using enum FlagType;

constexpr Refusal kNoErrors = {"errors are not injected into a run; leave the flag out", kSamePlan};
constexpr std::string_view kNoTracker =
    "random numbers are functions of the seed and the place where they are used";

constexpr TrainFlag kUnboundOptimizerRows[] = {
    satisfied(kRegularisation, "--optimizer-cpu-offload", kSwitch, kStatesInHostMemory),
    with_range(from_to(0, 1), satisfied(kRegularisation, "--optimizer-offload-fraction", kReal,
                                        kStatesInHostMemory)),
    satisfied(kRegularisation, "--use-torch-optimizer-for-cpu-offload", kSwitch,
              kStatesInHostMemory),
    satisfied(kRegularisation, "--overlap-cpu-optimizer-d2h-h2d", kSwitch, kStatesInHostMemory),
    satisfied(kRegularisation, "--no-pin-cpu-grads", kSwitch, kStatesInHostMemory),
    satisfied(kRegularisation, "--no-pin-cpu-params", kSwitch, kStatesInHostMemory),

    satisfied(kTraining, "--check-for-nan-in-loss-and-grad", kSwitch,
              "a loss or gradient that is not finite ends the run and is traced, or skips its step "
              "where there is a loss scale"),
    with_choices("disabled validate_results report_stats report_determinism_stats",
                 passed_over(kTraining, "--rerun-mode", kText,
                             "only a step whose loss or gradient is not finite is run again, to "
                             "name where that began")),
    satisfied_by("0", kTraining, "--error-injection-rate", kInteger, "no error is injected",
                 kNoErrors),
    only_default("transient_error", kTraining, "--error-injection-type", kText,
                 {"nothing depends on it without injected errors", kNoErrors}),
    passed_over(kTraining, "--te-rng-tracker", kSwitch, kNoTracker),
    passed_over(kTraining, "--inference-rng-tracker", kSwitch, kNoTracker),
    satisfied(kTraining, "--deterministic-mode", kSwitch,
              "the same inputs always give the same bits"),
};

}  // namespace

std::span<const TrainFlag> unbound_optimizer_flags() { return kUnboundOptimizerRows; }

}  // namespace phalanx
