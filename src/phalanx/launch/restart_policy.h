#pragma once
// Decides whether the ranks are restarted after a failure. It depends on its arguments only: every
// launcher of a run decides the same.

#include <optional>
#include <string>

#include "phalanx/launch/outcome.h"
#include "phalanx/launch/saved_progress.h"

namespace phalanx::launch {

struct NextStep {
  bool restarts = false;
  int exit_status = 0;  // if it does not restart
  std::string why;      // for people; empty: nothing to say
};

class RestartPolicy {
 public:
  // `has_save`: whether the run writes checkpoints; without, a restart would begin anew.
  RestartPolicy(int max_restarts, bool has_save)
      : max_restarts_(max_restarts), has_save_(has_save) {}

  // The next step after an attempt; `before` and `now`: the newest checkpoints before and after it.
  // 69, 70 (once; any status that is not ours counts as 70), 74, 75, 124 and signals lead to a
  // restart; 64-66, 71, 73, 77, 78, 85, 93 never do. Three restarts without a newer checkpoint end
  // with 93.
  NextStep after(const Outcome& outcome, const std::optional<SavedProgress>& before,
                 const std::optional<SavedProgress>& now);

  int restarts() const { return restarts_; }

 private:
  int max_restarts_;
  bool has_save_;
  int restarts_ = 0;
  int internal_errors_ = 0;
  int without_progress_ = 0;
};

}  // namespace phalanx::launch
