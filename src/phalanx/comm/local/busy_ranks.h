#pragma once
// Which ranks of a world are busy, and which waits this excuses: waits for a busy rank, for a rank
// that waits for one, and so on.

#include <span>
#include <string>
#include <vector>

#include "phalanx/comm/communicator.h"

namespace phalanx::local {

// Ranks that wait for the same operation, and the ranks that it waits for.
struct PendingWait {
  std::vector<int> ranks;
  std::vector<int> missing;
};

// It has no lock. `waits` are all waits of the world: a waiting rank does not count as busy, so
// that ranks that wait for each other time out.
class BusyRanks {
 public:
  using Clock = Work::Clock;

  explicit BusyRanks(int size);

  void begin(int rank, std::string what, Clock::time_point now);
  // Ends the work that began last.
  void end(int rank);
  // To be called before `rank` posts its part of a message, waits, or ends work: the time limits of
  // the ranks that have waited for it begin anew.
  void act(int rank, std::span<const PendingWait> waits, Clock::time_point now);
  bool is_busy(int rank) const {
    return !ranks_[static_cast<std::size_t>(rank)].activities.empty();
  }

  struct Excuse {
    Clock::time_point until{};  // now if there is one; the clock's epoch if there never was one
    // "rank 0, which has been saving the checkpoint of iteration 100 for 12 min"; empty if there is
    // none now.
    std::string reason{};
  };
  // The excuse of a wait for the ranks `missing`.
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
