#pragma once
// Finds the origin of a loss or gradient that is not finite.
//
// The failed step has changed no weights. So it is run again with the same samples and dropout, and
// every tensor that a unit's pass writes is checked. If the second run is finite or differs, a
// machine computed different results from the same inputs. If it fails in the same way, the first
// tensor that is not finite is named.
//
// Each rank reports its first such tensor in the order of its program. The first tensor of all
// ranks had only finite inputs, so it is among these. A candidate with an input that is not finite
// is a victim of another one. Several candidates may have finite inputs, independently or as parts
// of one sum over tensor-parallel ranks. They are ordered: forward passes before backward passes,
// lower microbatches first, stages and units in the direction of the pass, a unit's tensors in the
// order of writing. So the parts of a sum come before the sum, which all of its ranks hold.

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

// A rank's observations of the failed step and of its second run.
struct NanEvidence {
  std::string rank;                // rank_text()
  bool failed = false;             // in the first run
  bool failed_again = false;       // false also without a second run
  std::string loss, loss_again;    // of the global batch, exactly
  std::string gradient;            // after the first run: a parameter whose gradient is not finite
  std::string weight;              // after the first run: a parameter that is not finite
  std::string gradient_again;      // after the second
  std::optional<NonFinite> first;  // in the second run
  bool gradient_is_lost = false;   // that of the first run: a next step has written others
};

struct NanVerdict {
  ErrorCode code = ErrorCode::kDoNotRestart;
  std::string text;
};
// `ran_again` is false for an asynchronous `schedule`, whose weights have already changed.
NanVerdict judge(std::int64_t iteration, const std::vector<NanEvidence>& evidence,
                 const std::string& schedule, bool ran_again);

// A step in which some rank's loss or gradient was not finite.
struct FailedStep {
  std::int64_t iteration = 0;  // its number; of several iterations in one program, the first
  std::span<const StepSchedule> schedules;
  std::span<const StepResult> results;
  const BatchSource& source;             // gives the same samples again
  PassObserver* observer = nullptr;      // of the second run
  nn::UnitHooks* first_hooks = nullptr;  // called before every check
  // Whether the passes of the next step have run since, so that its gradients are there. No update
  // has.
  bool next_has_run = false;
};

// Called by all ranks at the same time. Throws the same Error on all of them: kDoNotRestart for a
// fault of the run, kTemporary for a fault of a machine.
[[noreturn]] void explain_failed_step(Rank& rank, const TrainConfig& config,
                                      const Placement& placement,
                                      const std::vector<RankPlace>& places,
                                      const FailedStep& failed);

}  // namespace phalanx
