#pragma once
// Where the ranks of a local world meet: it matches their calls, lets waiting ranks do the pieces,
// and wakes all ranks when one fails.

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "phalanx/comm/comm_error.h"
#include "phalanx/comm/local/busy_ranks.h"
#include "phalanx/comm/local/local_world.h"
#include "phalanx/comm/local/operation.h"
#include "phalanx/comm/local/sleepers.h"

namespace phalanx::local {

using OperationPointer = std::shared_ptr<Operation>;

class Hub {
 public:
  using Clock = Work::Clock;

  Hub(int size, const LocalOptions& options);

  // Posts this member's part of call `number` of a group. If the members' calls differ, the world
  // ends, and this is a CommError.
  OperationPointer post(const std::shared_ptr<const LocalGroup>& group, int member,
                        std::uint64_t number, const Call& call, Contribution contribution);
  // Posts several messages at once. Errors likewise.
  std::vector<OperationPointer> post_messages(const LocalGroup& group, int member,
                                              std::span<const PointToPoint> messages);

  // Returns when the operations are done; meanwhile does pieces of them and, while peers are
  // missing, of any other. CommError when a rank fails, at `deadline`, or - and then this rank
  // fails - after the world's timeout in which no missing rank was busy, nor waited for one that
  // was. A warning once per timeout says what is waited for.
  void wait(int rank, std::span<const OperationPointer> operations,
            Clock::time_point deadline = Clock::time_point::max());
  // Does a piece if there is one. CommError when a rank has failed.
  bool test(Operation& operation);

  // Ends the world; the first reason counts. No tensor is touched any more when this returns.
  // `place`: whose failure it is, and where.
  void fail(ErrorCode code, const CommPlace& place, std::string_view reason) noexcept;

  void begin_busy(int rank, std::string what);
  void end_busy(int rank) noexcept;

  // The rank of the world that failed first, if any.
  std::optional<int> failed_rank() const;

  std::vector<std::int64_t> bytes_read() const;

 private:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  // Messages between two ranks of a group: those that only one of them has posted.
  struct Channel {
    std::deque<OperationPointer> sent, expected;
    std::uint64_t sends = 0, receives = 0;
  };

  // With the lock.
  OperationPointer post_message(const LocalGroup& group, int member, const PointToPoint& message);
  void make_ready(const OperationPointer& operation);
  OperationPointer any_ready_operation();
  void wake_for(const Operation& operation);
  std::vector<PendingWait> pending_waits() const;
  void act(int rank);

  // Without the lock.
  void do_if_small(Operation& operation);
  void work(Operation& operation, std::int64_t limit);
  bool help_anyone();
  bool wait_for(int rank, Operation& operation, Clock::time_point& limit,
                Clock::time_point deadline);
  bool comes_news_after(std::uint64_t news) const;
  bool sleep_until_woken(int rank, const Operation& operation, Clock::time_point end);
  bool extend(int rank, const Operation& operation, Clock::time_point& limit);
  [[noreturn]] void give_up(int rank, const Operation& operation, Clock::time_point begin,
                            bool timed_out);
  void throw_if_failed() const;
  void rest() const;

  const int threads_;
  const int sum_block_;
  const Clock::duration timeout_;
  const bool spins_;
  const std::int64_t helpers_;  // as many as have cores to do pieces on
  std::vector<std::atomic<std::int64_t>> bytes_read_;

  std::atomic<bool> failed_ = false;
  std::atomic<int> working_ = 0;         // threads that may be accessing tensors
  std::atomic<std::uint64_t> news_ = 0;  // counts what a spinning rank may want to know

  std::atomic<int> activities_ = 0;  // number of busy() objects

  mutable std::mutex mutex_;          // guards all below
  std::optional<CommError> failure_;  // what the others' waits throw
  std::int64_t next_group_ = 1;       // the world is 0
  std::map<std::pair<std::int64_t, std::uint64_t>, OperationPointer> gathering_;
  std::map<std::tuple<std::int64_t, int, int>, Channel> channels_;
  std::deque<OperationPointer> ready_;  // whose pieces anyone may do
  Sleepers sleepers_;
  BusyRanks busy_;
  Clock::time_point next_excuse_ = Clock::time_point::min();
  Clock::time_point next_warning_ = Clock::time_point::min();
};

// The hub of `member`, which is an end of a local world or of one of its groups.
const Hub& hub_of(const Communicator& member);

}  // namespace phalanx::local
