#pragma once
// Who made a step's loss or gradient something else than a finite number.
//
// A step that fails so has changed no weights. So it is run again, on the same samples and with the
// same dropout, while somebody looks at what every pass of every unit writes. Where the second run
// is finite, or differs from the first, a machine has computed something else from the same inputs;
// where it fails alike, the first tensor that is not finite has a name.
//
// Which tensor is the first of all ranks'? Each rank keeps the first in the order of its program.
// The one that was written first of all had only finite inputs, and is the first of its rank, so it
// is among those; a tensor whose pass read what was not finite already is a victim of another's.
// Several may have had finite inputs, independently or as parts of one sum over tensor-parallel
// ranks: then forward passes come before backward ones, lower microbatches first, stages and units
// in the direction of the pass, a unit's tensors in the order in which it writes them - the parts
// of a sum before the sum, which all of its ranks hold.

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

// What a rank knows of a step that failed, and of its second run.
struct NanEvidence {
  std::string rank;                // rank_text()
  bool failed = false;             // the first time
  bool failed_again = false;       // false too where there was no second run
  std::string loss, loss_again;    // of the global batch, exactly
  std::string gradient;            // after the first run: a parameter whose gradient is not finite
  std::string weight;              // and one that is itself not finite
  std::string gradient_again;      // after the second
  std::optional<NonFinite> first;  // in the second
};

struct NanVerdict {
  ErrorCode code = ErrorCode::kDoNotRestart;
  std::string text;
};
// `ran_again`: false for an asynchronous schedule, `schedule`, whose weights have changed
// meanwhile.
NanVerdict judge(std::int64_t iteration, const std::vector<NanEvidence>& evidence,
                 const std::string& schedule, bool ran_again);

// A step of which some rank's loss or gradient was not finite.
struct FailedStep {
  std::int64_t iteration = 0;  // its number; of several that are run together the first one's
  std::span<const StepSchedule> schedules;
  std::span<const StepResult> results;
  const BatchSource& source;         // the same samples again
  PassObserver* observer = nullptr;  // of the second run
  nn::UnitHooks* others = nullptr;   // told of every pass before anybody looks
};

// By all ranks at the same time. Throws the same Error on all of them: kDoNotRestart where the
// fault is in the run, kTemporary where it is in a machine.
[[noreturn]] void explain_failed_step(Rank& rank, const TrainConfig& config,
                                      const Placement& placement,
                                      const std::vector<RankPlace>& places,
                                      const FailedStep& failed);

}  // namespace phalanx
