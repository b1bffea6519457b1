#pragma once
// What an attempt came to, from how all ranks of all nodes ended: whose fault it was, and the exit
// status that follows. Pure: every launcher of a run decides the same.

#include <optional>
#include <span>
#include <string>

#include "phalanx/launch/rank_end.h"

namespace phalanx::launch {

struct Culprit {
  int rank = 0;
  std::string host;
  std::string reason;   // "signal 9", "signal 9 (OOM-killer)", "exit 70", "hang", "lost"
  std::string told;     // for people: "rank 3 (host n07) was killed by SIGKILL"
  std::string message;  // its last error line
  double detected_after_seconds = 0.0;
};

struct Outcome {
  int exit_status = 0;
  std::optional<Culprit> culprit;
  int finished = 0;     // ranks that ended with 0
  int preempted = 0;    // with 85
  int failed = 0;       // the culprit among them
  int left_behind = 0;  // of them, processes that the kernel does not end
  bool was_asked_to_stop = false;
  bool was_ended_at_once = false;
};

// The first one that failed for a reason of its own: the coordinator's verdict and the order of the
// ends decide. Ranks that say that a peer is gone (69, 75, 124) are not the first where another has
// a cause of its own.
Outcome outcome_of(std::span<const NodeReport> reports);

}  // namespace phalanx::launch
