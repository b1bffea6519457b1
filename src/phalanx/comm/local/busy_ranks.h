#pragma once
// Who of a world has said that it is busy, and whose waits that excuses: those for a busy rank, and
// those for a rank that itself waits for one, and so on.

#include <span>
#include <string>
#include <vector>

#include "phalanx/comm/communicator.h"

namespace phalanx::local {

// A rank that waits, and for whom.
struct PendingWait {
  int rank = 0;
  std::vector<int> missing;
};

// Without a lock of its own. `waits` are all of the world's: a rank that waits is not busy
// meanwhile, whatever it says, so that ranks that wait for each other time out.
class BusyRanks {
 public:
  using Clock = Work::Clock;

  explicit BusyRanks(int size);

  void begin(int rank, std::string what, Clock::time_point now);
  // What began last.
  void end(int rank, std::span<const PendingWait> waits, Clock::time_point now);
  // Before `rank` posts its part of a message, or waits: whoever has waited for it until now has
  // all of its time before it.
  void act(int rank, std::span<const PendingWait> waits, Clock::time_point now);
  bool is_busy(int rank) const {
    return !ranks_[static_cast<std::size_t>(rank)].activities.empty();
  }

  struct Excuse {
    Clock::time_point until{};  // now where it holds; the clock's epoch where there never was one
    // "rank 0, which has been saving the checkpoint of iteration 100 for 12 min"; empty where none
    // holds now.
    std::string reason{};
  };
  // Of a wait for the ranks `missing`.
  Excuse excuse(std::span<const int> missing, std::span<const PendingWait> waits,
                Clock::time_point now) const;

 private:
  static constexpr int kNobody = -1;

  struct Activity {
    std::string what;
    Clock::time_point since;
  };
  struct State {
    std::vector<Activity> activities{};
    Clock::time_point excused_until{};
  };

  std::vector<int> whom_ranks_wait_for(std::span<const PendingWait> waits) const;

  std::vector<State> ranks_;
};

}  // namespace phalanx::local
