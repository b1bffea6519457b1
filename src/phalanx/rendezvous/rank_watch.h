#pragma once
// The interface between a rank and the watch over all ranks: the rank reports its progress, and
// learns that a rank has failed. The rank's own threads and its transport's helper thread may call
// every function at any time; all but fail() are cheap.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/progress.h"
#include "phalanx/rendezvous/comm_place.h"

namespace phalanx {

class Mailbox;

// The first failure of a world. Failures that follow from it are not reported.
struct RankFailure {
  int rank = -1;                           // that failed
  ErrorCode code = ErrorCode::kTemporary;  // what the other ranks end with: 75, 124 or 74
  std::string reason;                      // "rank 3 (host n07, pid 4711) is gone: ..."
};

class RankWatch {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~RankWatch() = default;
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // A sign of progress: a message began or ended, a pass is over. A rank that does not tick for too
  // long counts as hanging.
  virtual void tick() noexcept = 0;
  // Where threads count other progress than messages, each one in a ProgressScope; null if nobody
  // watches.
  virtual Progress* progress() noexcept { return nullptr; }
  // Texts that the ranks of the run leave for each other; null if there is none. It lives as long
  // as the watch.
  virtual Mailbox* mailbox() noexcept { return nullptr; }
  // How long the rank may be without a tick; zero: no limit.
  virtual void limit_stillness(std::chrono::milliseconds /*limit*/) {}

  // The rank's thread waits for messages of these ranks. Called once for a wait that takes longer
  // than some tens of milliseconds.
  virtual void begin_wait(const CommPlace& place, const std::vector<int>& missing) = 0;
  virtual void end_wait() noexcept = 0;
  // Adds time that the rank has spent in waits, also in short ones.
  virtual void waited(Clock::duration time) noexcept = 0;

  // Begins long work that is no training ("saving the checkpoint of iteration 100"); may be nested.
  // The rank must go on to tick.
  virtual void begin_busy(std::string what) = 0;
  virtual void end_busy() noexcept = 0;
  // The ranks that are busy now: "rank 0, which has been saving the checkpoint of iteration 100 for
  // 12 s"; empty if none is. The time limits of waits are suspended meanwhile.
  virtual std::string busy_ranks() const = 0;

  // An iteration is complete.
  virtual void step(std::int64_t iteration) noexcept = 0;

  // This rank fails: all others are told. Returns when the report has been sent, or cannot be.
  virtual void fail(std::string_view reason) noexcept = 0;
  // The first failure of the world, as soon as this rank knows it.
  virtual std::optional<RankFailure> failure() const = 0;
  // Calls `wake` on some thread when failure() has become set, at once if it is already. It
  // replaces the function set before (null: none), which is not running and will not be called when
  // this returns.
  virtual void on_failure(std::function<void()> wake) = 0;

 protected:
  RankWatch() = default;
};

// A watch that does nothing, for ranks that are threads of one process. `mailbox`: theirs, or null.
std::unique_ptr<RankWatch> make_idle_watch(Mailbox* mailbox = nullptr);

}  // namespace phalanx
