#include "phalanx/comm/ucx/engine.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"

namespace phalanx::ucx {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long a waiting rank looks for messages before it sleeps, and how many looks it takes before
// it yields its core: with a core of its own, and without.
constexpr microseconds kSpin{50};
constexpr microseconds kShortSpin{5};
constexpr int kLooks = 64;
constexpr int kFewLooks = 8;
// If a rank has begun an operation and does not wait for it by then, the helper moves it.
constexpr microseconds kHelpAfter{500};
// After this time a wait is reported to the watch, and checked at this period from then on.
constexpr milliseconds kLongWait{20};
constexpr milliseconds kCheckPeriod{100};
// How long a rank waits for the watch to explain a broken connection.
constexpr milliseconds kExplanation{3000};
// How long a rank that ends waits for its own messages, and for the goodbyes of its peers, which
// may have work left that others have not: the first one's report.
constexpr milliseconds kLastMessages{1000};
constexpr std::chrono::seconds kGoodbye{60};
// A longer timeout could overflow the clock.
constexpr std::chrono::hours kLongestTimeout{24 * 365};

std::string failed(int rank, std::string_view reason) {
  if (rank < 0) return std::string(reason);  // of the launcher, which hosts the coordinator
  const std::string subject = fmt::format("rank {} ", rank);
  if (reason.starts_with(subject)) return std::string(reason);
  return fmt::format("{}failed: {}", subject, reason);
}

std::vector<int> hosts_of(const std::vector<RankPlace>& places) {
  std::vector<int> hosts;
  for (const RankPlace& place : places) hosts.push_back(place.host);
  return hosts;
}

}  // namespace

// The lock, taken by the rank's thread: the helper gives way to it.
class Engine::Entry {
 public:
  explicit Entry(Engine& engine) {
    engine.entering_.fetch_add(1, std::memory_order_relaxed);
    lock_ = std::unique_lock(engine.mutex_);
    engine.entering_.fetch_sub(1, std::memory_order_relaxed);
  }
  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

// A wait of the rank's thread.
struct Engine::Waiting {
  std::span<const OperationPointer> operations;
  Clock::time_point begin;
  Clock::time_point limit;
  Clock::time_point next_check;
  std::uint64_t moves = 0;
  bool reported = false;  // to the watch
  std::optional<Clock::time_point> broken{};

  const Operation& first() const {
    return **std::ranges::find_if(operations, [](const auto& o) { return !o->done(); });
  }
  bool done() const {
    return std::ranges::all_of(operations, [](const auto& o) { return o->done(); });
  }
};

Engine::Engine(int rank, Wires wires, const std::vector<RankPlace>& places,
               const UcxOptions& options, RankWatch& watch)
    : rank_(rank),
      wires_(std::move(wires)),
      hosts_(hosts_of(places)),
      sum_block_(options.sum_block),
      threads_(options.threads_per_rank),
      timeout_(std::min<Clock::duration>(options.timeout, kLongestTimeout)),
      has_cores_(places[static_cast<std::size_t>(rank)].local_size * options.threads_per_rank <=
                 usable_cores().count),
      spin_(has_cores_ ? kSpin : kShortSpin),
      looks_(has_cores_ ? kLooks : kFewLooks),
      watch_(watch),
      connected_(wires_.peers.size(), false) {
  watch_.on_failure([this] {
    failure_known_.store(true, std::memory_order_release);
    alarm_.signal();
  });
}

Engine::~Engine() {
  if (helper_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      kick_.set(microseconds(1));
    }
    alarm_.signal();
    helper_.join();
  }
  std::unique_lock lock(mutex_);
  if (failure_known_.load(std::memory_order_acquire)) adopt_failure(std::nullopt);
  if (failure_) {
    shut_down(lock);
  } else {
    const auto deadline = Clock::now() + kLastMessages;
    // Others do not know yet that a rank fails that leaves with an exception.
    const bool fails = std::uncaught_exceptions() > exceptions_at_birth_;
    try {
      while (!operations_.empty() && !failure_known_ && Clock::now() < deadline) progress();
      say_goodbye(lock,
                  fails ? deadline : Clock::now() + std::min<Clock::duration>(timeout_, kGoodbye));
      for (const auto& wire : wires_.wires) wire->flush(Clock::now() + kLastMessages);
      if (!fails && !failure_known_.load(std::memory_order_acquire)) leave_together();
    } catch (const std::exception&) {  // a rank has failed, or a peer cannot be reached
    }
    for (const auto& wire : wires_.wires) wire->flush_and_close(Clock::now() + kLastMessages);
  }
  watch_.on_failure(nullptr);
  // The wires end before the operations that wait for their messages.
  wires_.wires.clear();
  closing_ = true;
  ready_.clear();
  operations_.clear();
}

// Progress ----------------------------------------------------------------------------------------

void Engine::start(std::span<const OperationPointer> operations) {
  Entry entry(*this);
  throw_if_failed(entry.lock());
  watch_.tick();
  for (const auto& operation : operations) {
    operation->index_ = operations_.size();
    operations_.push_back(operation);
    ready_.push_back(operation);
  }
  progress();
  throw_if_failed(entry.lock());
  if (!operations_.empty()) kick_helper();
}

void Engine::resume(Operation& operation) {
  if (!closing_) ready_.push_back(operations_[operation.index_]);
}

bool Engine::progress() {
  bool moved = run_ready();
  for (const auto& wire : wires_.wires) moved = wire->progress() || moved;
  return run_ready() || moved;
}

bool Engine::run_ready() {
  if (ready_.empty()) return false;
  while (!ready_.empty() && !failure_) {
    const OperationPointer operation = std::move(ready_.front());
    ready_.pop_front();
    if (!operation->done_) run_task(operation);
  }
  return true;
}

void Engine::run_task(const OperationPointer& operation) {
  std::optional<CommError> error = operation->mismatch_;
  if (!error) {
    operation->next_.resume();
    if (failure_ || !operation->task_.done()) return;
    try {
      operation->task_.rethrow_error();
    } catch (const CommError& reason) {
      error = reason;
    } catch (const std::exception& reason) {
      error.emplace(ErrorCode::kTemporary, comm_place(operation->place_),
                    fmt::format("{}: {}", label_of(operation->place_), reason.what()));
    }
  }
  if (error) {
    adopt_failure(error);
    return;
  }
  operation->done_ = true;
  operation->task_ = Task{};
  operations_[operation->index_] = operations_.back();
  operations_[operation->index_]->index_ = operation->index_;
  operations_.pop_back();
  watch_.tick();
}

int Engine::begin_compute() {
  // The helper uses one thread: the rank's other threads may be computing.
  const int threads = std::this_thread::get_id() == helper_.get_id() ? 1 : threads_;
  ++computing_;
  mutex_.unlock();
  return threads;
}

bool Engine::end_compute() {
  mutex_.lock();
  --computing_;
  computed_.notify_all();
  return !failure_;
}

bool Engine::arm() {
  return std::ranges::all_of(wires_.wires, [](const auto& wire) { return wire->arm(); });
}

bool Engine::test(const Operation& operation) {
  Entry entry(*this);
  throw_if_failed(entry.lock());
  if (!operation.done()) progress();
  throw_if_failed(entry.lock());
  return operation.done();
}

UcxTraffic Engine::network_traffic() {
  Entry entry(*this);
  return network_traffic_;
}

int Engine::connections() {
  Entry entry(*this);
  return static_cast<int>(std::ranges::count(connected_, true));
}

void Engine::begin_busy(std::string what) {
  Entry entry(*this);
  busy_.push_back(what);
  watch_.begin_busy(std::move(what));
}

void Engine::end_busy() noexcept {
  Entry entry(*this);
  busy_.pop_back();
  watch_.end_busy();
}

// The helper --------------------------------------------------------------------------------------

void Engine::kick_helper() {
  if (helper_awake_ || kicked_) return;
  if (!helper_.joinable()) helper_ = std::jthread([this] { help(); });
  kicked_ = true;
  kick_.set(kHelpAfter);
}

void Engine::help() {
  std::vector<pollfd> descriptors = {{alarm_.descriptor(), POLLIN, 0}};
  for (const auto& wire : wires_.wires) descriptors.push_back({wire->descriptor(), POLLIN, 0});
  for (;;) {
    pollfd kick = {kick_.descriptor(), POLLIN, 0};
    poll(&kick, 1, -1);
    std::unique_lock lock(mutex_);
    kick_.clear();
    kicked_ = false;
    if (stopping_) return;
    helper_awake_ = true;
    while (!rank_waits_ && !operations_.empty() && !failure_ && !stopping_ &&
           !failure_known_.load(std::memory_order_acquire)) {
      const bool moved = progress();
      const bool sleeps = !moved && !rank_waits_ && arm();
      lock.unlock();
      if (sleeps) poll(descriptors.data(), descriptors.size(), -1);
      while (entering_.load(std::memory_order_relaxed) > 0) std::this_thread::yield();
      lock.lock();
    }
    helper_awake_ = false;
    if (stopping_) return;
  }
}

// Waits -------------------------------------------------------------------------------------------

void Engine::wait(std::span<const OperationPointer> operations, Clock::time_point deadline) {
  Entry entry(*this);
  throw_if_failed(entry.lock());
  const auto now = Clock::now();
  Waiting waiting{.operations = operations,
                  .begin = now,
                  .limit = now + timeout_,
                  .next_check = now + kLongWait,
                  .moves = moves_};
  if (waiting.done()) return;
  rank_waits_ = true;
  // To be called however the wait ends.
  const auto leave = [&] {
    rank_waits_ = false;
    if (waiting.reported) end_reported_wait();
    watch_.waited(Clock::now() - waiting.begin);
    if (!operations_.empty() && !failure_) kick_helper();
  };
  try {
    while (!waiting.done()) {
      throw_if_failed(entry.lock());
      if (spin(operations)) continue;
      if (Clock::now() >= deadline) give_up(entry.lock(), waiting, false);
      sleep(entry.lock(), std::min(deadline, waiting.next_check));
      if (Clock::now() >= waiting.next_check) check_wait(entry.lock(), waiting);
    }
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

// Polls for a short time. True if something moved.
bool Engine::spin(std::span<const OperationPointer> operations) {
  auto end = Clock::time_point::max();
  for (int look = 1;; ++look) {
    if (progress()) return true;
    if (failure_ || failure_known_.load(std::memory_order_relaxed)) return true;
    // Another thread may have finished them while the lock was free for computing.
    if (std::ranges::all_of(operations, [](const auto& o) { return o->done(); })) return true;
    if (look % looks_ != 0) continue;
    const auto now = Clock::now();
    if (look == looks_) end = now + spin_;
    if (now >= end) return false;
    // The peer may be waiting for this core.
    std::this_thread::yield();
  }
}

void Engine::sleep(std::unique_lock<std::mutex>& lock, Clock::time_point until) {
  if (!arm()) return;
  std::vector<pollfd> descriptors = {{alarm_.descriptor(), POLLIN, 0}};
  for (const auto& wire : wires_.wires) descriptors.push_back({wire->descriptor(), POLLIN, 0});
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
  lock.unlock();
  poll(descriptors.data(), descriptors.size(),
       static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000)));
  lock.lock();
}

// A broken connection that an operation needs. A message that is being sent reports it itself;
// if only receives are missing, the peer's connection does.
std::optional<Engine::BrokenConnection> Engine::broken_connection(
    const Operation& operation) const {
  if (operation.broken_) {
    return BrokenConnection{operation.group().world_rank(operation.broken_->member),
                            operation.broken_->reason};
  }
  for (const int rank : operation.missing_ranks()) {
    const Wire* const wire = wires_.peers[static_cast<std::size_t>(rank)];
    const char* const reason = wire == nullptr ? nullptr : wire->broken(rank);
    if (reason != nullptr) return BrokenConnection{rank, reason};
  }
  return std::nullopt;
}

// A waiting rank does not count as busy, so that ranks that wait for each other time out.
void Engine::report_wait(const CallPlace& place, const std::vector<int>& missing) {
  wait_is_reported_ = true;
  for (std::size_t i = 0; i < busy_.size(); ++i) watch_.end_busy();
  watch_.begin_wait(comm_place(place), missing);
}

void Engine::end_reported_wait() {
  wait_is_reported_ = false;
  watch_.end_wait();
  for (const auto& what : busy_) watch_.begin_busy(what);
}

// Looks after a long wait: reports it to the watch, and ends it at its limit or if a connection
// that it needs stays broken.
void Engine::check_wait(std::unique_lock<std::mutex>& lock, Waiting& waiting) {
  const auto now = Clock::now();
  waiting.next_check =
      now + std::min<Clock::duration>(kCheckPeriod, timeout_ / 4 + milliseconds(1));
  if (waiting.done()) return;
  const Operation& operation = waiting.first();
  if (!waiting.reported) {
    waiting.reported = true;
    report_wait(operation.place(), operation.missing_ranks());
  }
  if (moves_ != waiting.moves) {
    waiting.moves = moves_;
    waiting.limit = now + timeout_;
  }
  const std::string busy = watch_.busy_ranks();
  if (!busy.empty()) {
    waiting.limit = now + timeout_;
    if (now - waiting.begin >= timeout_ && now >= next_warning_) {
      next_warning_ = now + timeout_;
      log_warning("waiting for {}", busy);
    }
  }
  const std::optional<BrokenConnection> broken = broken_connection(operation);
  if (broken && !waiting.broken) waiting.broken = now;
  if (broken && now >= *waiting.broken + kExplanation) {
    const CommError error(ErrorCode::kTemporary, comm_place(operation.place()),
                          fmt::format("{}: the connection to rank {} broke: {}",
                                      label_of(operation.place()), broken->rank, broken->reason));
    fail(lock, error);
    throw CommError(error);
  }
  if (now >= waiting.limit) give_up(lock, waiting, true);
}

void Engine::give_up(std::unique_lock<std::mutex>& lock, const Waiting& waiting, bool timed_out) {
  const std::chrono::duration<double> waited = Clock::now() - waiting.begin;
  const Operation& operation = waiting.first();
  const std::string missing = spell_ranks(operation.missing_ranks());
  const std::string text =
      fmt::format("{}: waited {:.3g} s{}", label_of(operation.place()), waited.count(),
                  missing.empty() ? "" : " for " + missing + ", not come so far");
  const CommPlace place = comm_place(operation.place());
  // The caller frees its tensors after this error.
  if (timed_out) fail(lock, CommError(ErrorCode::kHang, place, text));
  throw CommError(ErrorCode::kHang, place, fmt::format("rank {}: {}", rank_, text));
}

// Failure -----------------------------------------------------------------------------------------

// Sets the failure of the world: the first one that the watch knows, else this rank's own.
void Engine::adopt_failure(const std::optional<CommError>& own) noexcept {
  if (failure_) return;
  if (own) watch_.fail(own->what());
  if (const auto first = watch_.failure()) {
    // This rank's own error is kept as it is.
    if (own && first->rank == rank_) {
      failure_ = own;
    } else {
      failure_.emplace(first->code, CommPlace{.rank = first->rank},
                       failed(first->rank, first->reason));
    }
  } else if (own) {
    failure_ = own;
  }
}

void Engine::throw_if_failed(std::unique_lock<std::mutex>& lock) {
  if (!failure_ && failure_known_.load(std::memory_order_acquire)) adopt_failure(std::nullopt);
  if (!failure_) return;
  shut_down(lock);
  throw CommError(*failure_);
}

// When this returns, no tensor is accessed any more.
void Engine::shut_down(std::unique_lock<std::mutex>& lock) noexcept {
  computed_.wait(lock, [&] { return computing_ == 0; });
  if (std::exchange(shut_down_, true)) return;
  for (const auto& wire : wires_.wires) wire->abandon();
}

void Engine::fail(std::unique_lock<std::mutex>& lock, const CommError& error) noexcept {
  adopt_failure(error);
  shut_down(lock);
}

void Engine::abort(std::string_view reason) noexcept {
  // Before the lock, which the helper may hold while it waits for a peer that begins late.
  if (!failure_known_.load(std::memory_order_acquire)) watch_.fail(reason);
  Entry entry(*this);
  if (!failure_) adopt_failure(std::nullopt);
  if (!failure_) {
    failure_.emplace(ErrorCode::kTemporary, CommPlace{.rank = rank_}, failed(rank_, reason));
  }
  shut_down(entry.lock());
}

}  // namespace phalanx::ucx
