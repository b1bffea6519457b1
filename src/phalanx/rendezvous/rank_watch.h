#pragma once
// Between a rank and whoever watches over all of them (rendezvous/): the rank says where it is, and
// hears that one of them has failed. Called by the rank's own thread and its transport's helper,
// from any of them at any time; all calls but fail() are cheap.

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

// The first failure of a world; what follows from it is nobody's.
struct RankFailure {
  int rank = -1;                           // whose it is
  ErrorCode code = ErrorCode::kTemporary;  // what the other ranks end with: 75, 124 or 74
  std::string reason;                      // "rank 3 (host n07, pid 4711) is gone: ..."
};

class RankWatch {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~RankWatch() = default;
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // Something moved: a message began or ended, a pass is over. A rank that does not tick is taken
  // for one that hangs.
  virtual void tick() noexcept = 0;
  // Where its threads count what moves beside messages, each such thread in a ProgressScope; null
  // where nobody looks.
  virtual Progress* progress() noexcept { return nullptr; }
  // How long the rank may go without a tick; zero: for ever.
  virtual void limit_stillness(std::chrono::milliseconds /*limit*/) {}

  // The rank's thread waits for messages of these ranks; said where it takes longer than some tens
  // of milliseconds, once for each wait.
  virtual void begin_wait(const CommPlace& at, const std::vector<int>& missing) = 0;
  virtual void end_wait() noexcept = 0;
  // Time spent in waits, however short, beside the rank's own work.
  virtual void waited(Clock::duration time) noexcept = 0;

  // Something long beside the messages ("saving the checkpoint of iteration 100"). May nest. It
  // ticks, as all else.
  virtual void begin_busy(std::string what) = 0;
  virtual void end_busy() noexcept = 0;
  // Who is busy now, of all ranks: "rank 0, which has been saving the checkpoint of iteration 100
  // for 12 s"; empty where nobody is. A wait's limit of time does not count meanwhile.
  virtual std::string busy_ranks() const = 0;

  // An iteration is over; what is usual is learned from these.
  virtual void step(std::int64_t iteration) noexcept = 0;

  // This rank fails: all others hear of it. The first failure of the world counts. Returns when it
  // has been said, or cannot be.
  virtual void fail(std::string_view reason) noexcept = 0;
  // The world's, as soon as this rank has heard of it.
  virtual std::optional<RankFailure> failure() const = 0;
  // `wake` is called, on some thread, when failure() is there; at once where it is already. Null
  // ends it: when this returns the old one is not running and will not be called.
  virtual void on_failure(std::function<void()> wake) = 0;

 protected:
  RankWatch() = default;
};

// Nobody watches: ranks that are threads of one process. fail() is heard by nobody.
std::unique_ptr<RankWatch> make_idle_watch();

}  // namespace phalanx
