#include "phalanx/comm/local/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/team.h"

namespace phalanx::local {
namespace {

// An operation that reads no more than this is done by the rank that comes last: waking another
// rank would take longer.
constexpr std::int64_t kSmallBytes = 64 << 10;

// How long a rank with a core of its own polls before it sleeps.
constexpr std::chrono::microseconds kSpin{30};
constexpr int kLooks = 200;

// How often the time limits of ranks that wait for busy ones are set anew, at most.
constexpr std::chrono::milliseconds kExcusePeriod{100};

// A longer timeout could overflow the clock.
constexpr std::chrono::hours kLongestTimeout{24 * 365};

bool is_small(const Operation& operation) { return operation.bytes() <= kSmallBytes; }

Contribution contribution_of(const PointToPoint& message) {
  if (message.direction == PointToPoint::Direction::kSend) {
    return {.input = message.tensor.data(), .output = nullptr};
  }
  return {.input = nullptr, .output = message.tensor.data()};
}

}  // namespace

Hub::Hub(int size, const LocalOptions& options)
    : threads_(options.threads_per_rank),
      sum_block_(options.sum_block),
      timeout_(std::min<Clock::duration>(options.timeout, kLongestTimeout)),
      spins_(size * options.threads_per_rank <= usable_cores().count),
      helpers_(std::max(1, usable_cores().count / options.threads_per_rank)),
      bytes_read_(static_cast<std::size_t>(size)),
      busy_(size) {}

OperationPointer Hub::post(const std::shared_ptr<const LocalGroup>& group, int member,
                           std::uint64_t number, const Call& call, Contribution contribution) {
  throw_if_failed();
  OperationPointer operation;
  try {
    const std::lock_guard lock(mutex_);
    act(group->ranks[static_cast<std::size_t>(member)]);
    const auto place = gathering_.try_emplace({group->id, number}).first;
    if (!place->second) {
      place->second = std::make_shared<Operation>(group, number, call, sum_block_);
    }
    operation = place->second;
    operation->arrive(static_cast<std::size_t>(member), call, std::move(contribution));
    if (operation->all_arrived()) {
      gathering_.erase(place);
      make_ready(operation);
    }
  } catch (const CommError& error) {
    fail(error.code(), error.place(), error.what());
    throw;
  }
  do_if_small(*operation);
  return operation;
}

std::vector<OperationPointer> Hub::post_messages(const LocalGroup& group, int member,
                                                 std::span<const PointToPoint> messages) {
  throw_if_failed();
  std::vector<OperationPointer> operations;
  operations.reserve(messages.size());
  try {
    const std::lock_guard lock(mutex_);
    act(group.ranks[static_cast<std::size_t>(member)]);
    for (const auto& message : messages) {
      operations.push_back(post_message(group, member, message));
    }
  } catch (const CommError& error) {
    fail(error.code(), error.place(), error.what());
    throw;
  }
  for (const auto& operation : operations) do_if_small(*operation);
  return operations;
}

OperationPointer Hub::post_message(const LocalGroup& group, int member,
                                   const PointToPoint& message) {
  const bool sends = message.direction == PointToPoint::Direction::kSend;
  const int source = sends ? member : message.peer;
  const int destination = sends ? message.peer : member;
  const Call call{.kind = OperationKind::kMessage,
                  .dtype = message.tensor.dtype,
                  .count = message.tensor.count(),
                  .key = message.key};
  Channel& channel = channels_[{group.id, source, destination}];
  const std::uint64_t number = sends ? channel.sends++ : channel.receives++;
  std::deque<OperationPointer>& from_peer = sends ? channel.expected : channel.sent;
  OperationPointer operation;
  if (from_peer.empty()) {
    const auto rank_of = [&](int r) { return group.ranks[static_cast<std::size_t>(r)]; };
    auto pair = std::make_shared<const LocalGroup>(
        LocalGroup{{group.name, {rank_of(source), rank_of(destination)}}, group.id});
    operation = std::make_shared<Operation>(std::move(pair), number, call, sum_block_);
    (sends ? channel.sent : channel.expected).push_back(operation);
  } else {
    operation = from_peer.front();
    from_peer.pop_front();
  }
  operation->arrive(sends ? 0 : 1, call, contribution_of(message));
  if (operation->all_arrived()) make_ready(operation);
  return operation;
}

void Hub::make_ready(const OperationPointer& operation) {
  if (operation->kind() == OperationKind::kSplit) {
    operation->set_first_group(next_group_);
    next_group_ += operation->groups();
  }
  operation->make_ready();
  if (operation->done()) {
    wake_for(*operation);
  } else if (!is_small(*operation)) {
    ready_.push_back(operation);
    wake_for(*operation);
  }
}

OperationPointer Hub::any_ready_operation() {
  while (!ready_.empty() && !ready_.front()->has_unclaimed_pieces()) ready_.pop_front();
  return ready_.empty() ? nullptr : ready_.front();
}

// Wakes all ranks that wait for an operation that is done. One that is ready gets as many ranks as
// can compute at the same time, and those that wait for it first, since they stay until its last
// piece.
void Hub::wake_for(const Operation& operation) {
  news_.fetch_add(1, std::memory_order_release);
  if (operation.done()) {
    sleepers_.wake_all_for(operation);
  } else {
    sleepers_.wake_some(operation, std::min(operation.pieces(), helpers_));
  }
}

void Hub::do_if_small(Operation& operation) {
  if (operation.has_unclaimed_pieces() && is_small(operation)) work(operation, kNoLimit);
}

void Hub::work(Operation& operation, std::int64_t limit) {
  std::atomic<bool> finished = false;
  // Announced before failed_ is looked at: see rest().
  working_.fetch_add(1, std::memory_order_seq_cst);
  const int threads = is_small(operation) ? 1 : threads_;
  Team::mine().run(threads, threads, Dealing::kNeighbours, [&](Team::Member& member) {
    while (member.next()) {
      if (operation.do_pieces(limit, failed_, bytes_read_)) finished = true;
    }
  });
  working_.fetch_sub(1, std::memory_order_seq_cst);
  if (finished) {
    const std::lock_guard lock(mutex_);
    wake_for(operation);
  }
}

bool Hub::help_anyone() {
  OperationPointer operation;
  {
    const std::lock_guard lock(mutex_);
    operation = any_ready_operation();
  }
  if (operation) work(*operation, 1);
  return operation != nullptr;
}

bool Hub::test(Operation& operation) {
  throw_if_failed();
  if (operation.has_unclaimed_pieces()) work(operation, 1);
  return operation.done();
}

void Hub::wait(int rank, std::span<const OperationPointer> operations, Clock::time_point deadline) {
  const auto begin = Clock::now();
  auto limit = begin + timeout_;
  if (activities_.load(std::memory_order_relaxed) > 0) {
    const std::lock_guard lock(mutex_);
    act(rank);
  }
  for (const auto& operation : operations) {
    if (!wait_for(rank, *operation, limit, deadline)) {
      give_up(rank, *operation, begin, limit <= deadline);
    }
  }
}

// False at the deadline, or at the limit if it is not extended.
bool Hub::wait_for(int rank, Operation& operation, Clock::time_point& limit,
                   Clock::time_point deadline) {
  for (;;) {
    const std::uint64_t news = news_.load(std::memory_order_acquire);
    throw_if_failed();
    if (operation.done()) return true;
    if (operation.has_unclaimed_pieces()) {
      work(operation, kNoLimit);
      continue;
    }
    if (help_anyone() || (spins_ && comes_news_after(news))) continue;
    if (sleep_until_woken(rank, operation, std::min(limit, deadline))) continue;
    if (limit <= deadline && extend(rank, operation, limit)) continue;
    return operation.done();
  }
}

// If a missing rank has been busy since the limit was set, the limit begins anew at the end of
// that.
bool Hub::extend(int rank, const Operation& operation, Clock::time_point& limit) {
  const auto now = Clock::now();
  std::string warning;
  {
    const std::lock_guard lock(mutex_);
    const std::vector<int> missing = operation.missing_ranks();
    std::vector<PendingWait> waits = pending_waits();
    waits.push_back({{rank}, missing});
    const BusyRanks::Excuse excuse = busy_.excuse(missing, waits, now);
    if (excuse.until + timeout_ <= now) return false;
    limit = excuse.until + timeout_;
    if (!excuse.reason.empty() && now >= next_warning_) {
      warning = fmt::format("waiting for {}", excuse.reason);
      next_warning_ = now + timeout_;
    }
  }
  if (!warning.empty()) log_warning("{}", warning);
  return true;
}

void Hub::begin_busy(int rank, std::string what) {
  const std::lock_guard lock(mutex_);
  busy_.begin(rank, std::move(what), Clock::now());
  activities_.fetch_add(1, std::memory_order_relaxed);
}

void Hub::end_busy(int rank) noexcept {
  const std::lock_guard lock(mutex_);
  act(rank);
  busy_.end(rank);
  activities_.fetch_sub(1, std::memory_order_relaxed);
}

// Looking at all waits takes a while in a large world, so it is not done for every message: a time
// limit may begin anew a little before the last of them.
void Hub::act(int rank) {
  if (!busy_.is_busy(rank)) return;
  const auto now = Clock::now();
  if (now < next_excuse_) return;
  next_excuse_ = now + std::min<Clock::duration>(timeout_ / 64, kExcusePeriod);
  busy_.act(rank, pending_waits(), now);
}

std::vector<PendingWait> Hub::pending_waits() const {
  std::vector<PendingWait> waits;
  sleepers_.for_each_operation([&](const Operation& operation, std::span<Sleeper* const> sleepers) {
    PendingWait& wait = waits.emplace_back();
    for (const Sleeper* sleeper : sleepers) wait.ranks.push_back(sleeper->rank);
    wait.missing = operation.missing_ranks();
  });
  return waits;
}

bool Hub::comes_news_after(std::uint64_t news) const {
  const auto end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < kLooks; ++i) {
      if (news_.load(std::memory_order_acquire) != news) return true;
    }
    // The peer may be waiting for this core.
    std::this_thread::yield();
  } while (Clock::now() < end);
  return false;
}

// False at `end`.
bool Hub::sleep_until_woken(int rank, const Operation& operation, Clock::time_point end) {
  std::unique_lock lock(mutex_);
  if (failed_ || operation.done() || operation.has_unclaimed_pieces() || any_ready_operation()) {
    return true;
  }
  Sleeper sleeper{.rank = rank, .waits_for = &operation};
  sleepers_.add(sleeper);
  const bool woken = sleeper.wake.wait_until(lock, end, [&] { return sleeper.woken; });
  sleepers_.remove(sleeper);
  return woken;
}

void Hub::give_up(int rank, const Operation& operation, Clock::time_point begin, bool timed_out) {
  const std::chrono::duration<double> waited = Clock::now() - begin;
  std::string missing;
  {
    const std::lock_guard lock(mutex_);
    missing = spell_ranks(operation.missing_ranks());
  }
  const std::string text =
      fmt::format("{}: waited {:.3g} s{}", operation.label(), waited.count(),
                  missing.empty() ? "" : " for " + missing + ", not come so far");
  // The caller frees its tensors: no peer may read them later.
  if (timed_out) fail(ErrorCode::kHang, operation.place_of(rank), text);
  throw CommError(ErrorCode::kHang, operation.place_of(rank),
                  fmt::format("rank {}: {}", rank, text));
}

void Hub::fail(ErrorCode code, const CommPlace& place, std::string_view reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!failed_) {
      failure_.emplace(code, place, fmt::format("rank {} failed: {}", place.rank, reason));
      failed_.store(true, std::memory_order_seq_cst);
      news_.fetch_add(1, std::memory_order_release);
      sleepers_.wake_all();
    }
  }
  rest();
}

// A rank that leaves with an error frees its tensors, so it must wait until no piece is under way.
// A thread that announces itself in working_ after that sees failed_ and does no piece.
void Hub::rest() const {
  while (working_.load(std::memory_order_seq_cst) > 0) std::this_thread::yield();
}

std::optional<int> Hub::failed_rank() const {
  const std::lock_guard lock(mutex_);
  if (!failure_) return std::nullopt;
  return failure_->place().rank;
}

void Hub::throw_if_failed() const {
  if (!failed_.load(std::memory_order_seq_cst)) return;
  rest();
  const std::lock_guard lock(mutex_);
  throw CommError(*failure_);
}

std::vector<std::int64_t> Hub::bytes_read() const {
  std::vector<std::int64_t> bytes;
  for (const auto& counter : bytes_read_) bytes.push_back(counter.load());
  return bytes;
}

}  // namespace phalanx::local
