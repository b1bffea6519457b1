#pragma once
// The outcome of an attempt, from the ends of all ranks of all nodes: which rank is at fault, and
// the exit status. A pure function: every launcher of a run decides the same.

#include <optional>
#include <span>
#include <string>

#include "phalanx/launch/rank_end.h"

namespace phalanx::launch {

struct Culprit {
  int rank = 0;
  std::string host;
  std::string reason;   // "signal 9", "signal 9 (OOM-killer)", "exit 70", "hang", "lost"
  std::string text;     // for people: "rank 3 (host n07) was killed by SIGKILL"
  std::string message;  // its last error line, or the verdict's reason; may be empty
  double detected_after_seconds = 0.0;
};

struct Outcome {
  int exit_status = 0;
  std::optional<Culprit> culprit;
  int finished = 0;     // ranks that ended with 0
  int preempted = 0;    // ended with 85
  int failed = 0;       // including the culprit
  int left_behind = 0;  // of those: processes that the kernel does not end
  bool was_asked_to_stop = false;
  bool was_ended_at_once = false;
};

// The culprit is the first rank that failed for a reason of its own, by the coordinator's verdict
// and the order of the ends. A rank that reports a lost peer (69, 75, 124) is not the culprit if
// another rank has a cause of its own.
Outcome outcome_of(std::span<const NodeReport> reports);

}  // namespace phalanx::launch
