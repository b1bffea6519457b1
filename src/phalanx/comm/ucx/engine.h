#pragma once
// Makes the operations of one rank progress: by the rank's own thread while it waits, else by a
// helper thread that sleeps while nothing moves. Ends all operations when a rank fails.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "phalanx/comm/ucx/events.h"
#include "phalanx/comm/ucx/operation.h"
#include "phalanx/comm/ucx/ucx_world.h"
#include "phalanx/comm/ucx/wire.h"
#include "phalanx/rendezvous/mailbox.h"
#include "phalanx/rendezvous/rank_watch.h"

namespace phalanx::ucx {

using OperationPointer = std::shared_ptr<Operation>;

// The wires of a rank, which peer is reached by which wire, and where it listens.
struct Wires {
  std::vector<std::unique_ptr<Wire>> wires{};
  std::vector<Wire*> peers{};  // by rank of the world; null: this rank
  // Called when a peer is first needed. It may wait until the peer has begun; an Error if a rank
  // fails meanwhile.
  std::function<std::string(int peer)> find_address{};
  Mailbox* mailbox = nullptr;  // null: a rank alone
};

class Engine {
 public:
  using Clock = Work::Clock;

  // `places` of all ranks of the world.
  Engine(int rank, Wires wires, const std::vector<RankPlace>& places, const UcxOptions& options,
         RankWatch& watch);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return rank_; }
  // Of a rank of the world.
  int host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  int sum_block() const { return sum_block_; }

  // By the rank's thread. ---------------------------------------------------------------------
  // Begins them. CommError if a rank has failed.
  void start(std::span<const OperationPointer> operations);
  // Returns when they are done. CommError when a rank fails, at `deadline`, or after the options'
  // timeout without a message and without a busy rank; the timeout is this rank's failure. After a
  // failure no tensor is accessed any more.
  void wait(std::span<const OperationPointer> operations,
            Clock::time_point deadline = Clock::time_point::max());
  bool test(const Operation& operation);
  UcxTraffic network_traffic();
  // How many peers this rank has exchanged messages with.
  int connections();
  // This rank fails.
  void abort(std::string_view reason) noexcept;
  void begin_busy(std::string what);
  void end_busy() noexcept;

  // By operations, with the lock. -------------------------------------------------------------
  void send(const CallPlace& place, int member, Lane lane, const void* data, std::size_t bytes,
            MessageTransfer& message);
  void receive(const CallPlace& place, int member, Lane lane, void* data, std::size_t bytes,
               MessageTransfer& message);
  // Its task will run soon.
  void resume(Operation& operation);
  void moved() {
    ++moves_;
    watch_.tick();
  }
  // Work on tensors, done without the lock: `co_await engine.compute(f)` calls f(threads). After a
  // failure the task never continues.
  template <typename F>
  auto compute(F work) {
    struct Awaiter {
      Engine& engine;
      F work;
      bool await_ready() {
        const int threads = engine.begin_compute();
        work(threads);
        return engine.end_compute();
      }
      void await_suspend(std::coroutine_handle<> /*task*/) const noexcept {}
      void await_resume() const noexcept {}
    };
    return Awaiter{*this, std::move(work)};
  }
  // Memory of messages, reused for the next ones.
  void lend_message(std::list<MessageTransfer>& to);
  void lend_buffer(std::list<StagingBuffer>& to);
  void give_back(std::list<MessageTransfer>& messages, std::list<StagingBuffer>& buffers);
  // Messages of an operation that has failed: the wire may still use them.
  void keep_until_end(std::list<MessageTransfer>& messages, std::list<StagingBuffer>& buffers);

 private:
  class Entry;
  struct Waiting;
  struct Goodbye : Transfer {
    Engine* engine = nullptr;
    Wire* wire = nullptr;
    int peer = 0;
    bool over = false;
  };

  // With the lock.
  void connect(int peer, const CallPlace& place);
  std::string find_address(int peer, const CallPlace& place);
  // A wait that the watch should know.
  void report_wait(const CallPlace& place, const std::vector<int>& missing);
  void end_reported_wait();
  bool progress();
  bool run_ready();
  void run_task(const OperationPointer& operation);
  bool arm();
  void throw_if_failed(std::unique_lock<std::mutex>& lock);
  void shut_down(std::unique_lock<std::mutex>& lock) noexcept;
  void fail(std::unique_lock<std::mutex>& lock, const CommError& error) noexcept;
  void adopt_failure(const std::optional<CommError>& own) noexcept;
  void kick_helper();
  bool spin(std::span<const OperationPointer> operations);
  void sleep(std::unique_lock<std::mutex>& lock, Clock::time_point until);
  struct BrokenConnection {
    int rank;  // of the world
    std::string reason;
  };
  std::optional<BrokenConnection> broken_connection(const Operation& operation) const;
  void check_wait(std::unique_lock<std::mutex>& lock, Waiting& waiting);
  [[noreturn]] void give_up(std::unique_lock<std::mutex>& lock, const Waiting& waiting,
                            bool timed_out);
  int begin_compute();
  bool end_compute();
  void say_goodbye(std::unique_lock<std::mutex>& lock, Clock::time_point deadline);
  void leave_together();

  void help();

  const int rank_;
  const int exceptions_at_birth_ = std::uncaught_exceptions();
  Wires wires_;
  const std::vector<int> hosts_;  // by rank of the world
  const int sum_block_;
  const int threads_;
  const Clock::duration timeout_;
  const bool has_cores_;  // of its own: the host has enough for all its ranks
  const Clock::duration spin_;
  const int looks_;
  RankWatch& watch_;

  const Alarm alarm_;                        // signalled when a rank has failed
  const Timer kick_;                         // wakes the helper
  std::atomic<bool> failure_known_ = false;  // by the watch
  std::atomic<int> entering_ = 0;            // the rank's thread waits for the lock

  std::mutex mutex_;  // guards all below, and the wires
  std::condition_variable computed_;
  std::vector<bool> connected_;               // by peer
  std::vector<OperationPointer> operations_;  // not done yet
  std::deque<OperationPointer> ready_;        // whose tasks can run
  std::uint64_t moves_ = 0;
  UcxTraffic network_traffic_;
  int computing_ = 0;
  bool rank_waits_ = false;
  bool wait_is_reported_ = false;
  bool helper_awake_ = false;
  bool kicked_ = false;
  bool stopping_ = false;
  bool closing_ = false;  // no task runs any more
  std::optional<CommError> failure_;
  bool shut_down_ = false;
  std::vector<std::string> busy_;  // what this rank is busy with
  std::list<MessageTransfer> free_messages_, kept_messages_;
  std::list<StagingBuffer> free_buffers_, kept_buffers_;
  std::list<Goodbye> goodbyes_;
  int goodbyes_pending_ = 0;
  Clock::time_point next_warning_ = Clock::time_point::min();

  std::jthread helper_;
};

}  // namespace phalanx::ucx
