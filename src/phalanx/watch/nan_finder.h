#pragma once
// Finds what made a step's loss or gradient not finite.
//
// A step that fails in this way has changed no weights. So it is run again, on the same samples and
// with the same dropout, and every tensor that a unit's pass writes is checked. If the second run
// is finite, or differs from the first, a machine has computed something else from the same inputs.
// If it fails in the same way, the first tensor that is not finite is named.
//
// Which tensor is the first of all ranks? Each rank keeps the first one in the order of its
// program. The tensor that was written first of all had finite inputs only and is the first of its
// rank, so each rank's candidate is enough. A candidate whose pass read something that was not
// finite is a victim of another one. Several candidates may have had finite inputs, independently
// or as parts of one sum over tensor-parallel ranks. Then they are ordered: forward passes before
// backward passes, lower microbatches first, stages and units in the direction of the pass, a
// unit's tensors in the order in which it writes them. So the parts of a sum come before the sum,
// which all of its ranks hold.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/placement.h"
#include "phalanx/rank/rank.h"
#include "phalanx/rendezvous/rank_place.h"
#include "phalanx/watch/nan_watch.h"

namespace phalanx {

// What a rank knows about a step that failed and about its second run.
struct NanEvidence {
  std::string rank;                // rank_text()
  bool failed = false;             // the first time
  bool failed_again = false;       // false too where there was no second run
  std::string loss, loss_again;    // of the global batch, exactly
  std::string gradient;            // after the first run: a parameter whose gradient is not finite
  std::string weight;              // and one that is itself not finite
  std::string gradient_again;      // after the second
  std::optional<NonFinite> first;  // in the second run
};

struct NanVerdict {
  ErrorCode code = ErrorCode::kDoNotRestart;
  std::string text;
};
// `ran_again` is false for an asynchronous `schedule`, whose weights have already changed.
NanVerdict judge(std::int64_t iteration, const std::vector<NanEvidence>& evidence,
                 const std::string& schedule, bool ran_again);

// A step of which some rank's loss or gradient was not finite.
struct FailedStep {
  std::int64_t iteration = 0;  // its number; of several that are run together the first one's
  std::span<const StepSchedule> schedules;
  std::span<const StepResult> results;
  const BatchSource& source;             // the same samples again
  PassObserver* observer = nullptr;      // of the second run
  nn::UnitHooks* first_hooks = nullptr;  // called before every check
};

// Called by all ranks at the same time. Throws the same Error on all of them: kDoNotRestart for a
// fault of the run, kTemporary for a fault of a machine.
[[noreturn]] void explain_failed_step(Rank& rank, const TrainConfig& config,
                                      const Placement& placement,
                                      const std::vector<RankPlace>& places,
                                      const FailedStep& failed);

}  // namespace phalanx
