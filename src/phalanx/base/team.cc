#include "phalanx/base/team.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <system_error>
#include <utility>

#include "phalanx/base/cpu_affinity.h"
#include "phalanx/base/error.h"
#include "phalanx/base/threads.h"

namespace phalanx {
namespace {

// Longer than most pauses between two rounds of a step, and short beside the few milliseconds for
// which another program may have the core that is waited for.
constexpr std::chrono::microseconds kSpin(50);

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Looks for a short time. False if `arrived` did not become true.
template <typename Arrived>
bool spin_until(const Arrived& arrived) {
  constexpr int kLooks = 16;  // between two looks at the clock
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kLooks; ++i) {
      if (arrived()) return true;
      pause_core();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Sleeps until it is woken, if the word still has this value. May return early.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(const std::atomic<std::uint32_t>& word, int count) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace

struct alignas(64) Team::Helper {
  int slot = 0;
  std::atomic<int> id = 0;
  std::atomic<std::int64_t> parts = 0, sleeps = 0;
  std::thread thread{};
};

Team::Team() = default;

Team::~Team() { stop_helpers(); }

Team& Team::mine() {
  thread_local Team team;
  return team;
}

void Team::stop_helpers() {
  stops_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1);
  wake(round_, INT_MAX);
  for (const auto& helper : helpers_) helper->thread.join();
  helpers_.clear();
  size_ = 1;
  stops_.store(false, std::memory_order_relaxed);
}

void Team::start_helpers(int count) {
  stop_helpers();  // those that there are know fewer shares
  shares_ = std::make_unique<Share[]>(static_cast<std::size_t>(count) + 1);
  size_ = count + 1;
  try {
    for (int slot = 1; slot <= count; ++slot) {
      auto helper = std::make_unique<Helper>();
      helper->slot = slot;
      helper->thread = std::thread([this, &to = *helper] { help(to); });
      helpers_.push_back(std::move(helper));
    }
  } catch (const std::system_error& error) {
    const auto started = static_cast<int>(helpers_.size());
    stop_helpers();
    throw_threads_refused(started, count, error);
  }
}

void Team::run_round(int members, std::int64_t parts, Dealing dealing, Call call,
                     const void* work) {
  PHALANX_CHECK(parts <= kMostParts && members <= kMostMembers,
                "a round of {} parts for {} threads", parts, members);
  if (members > size_) start_helpers(members - 1);
  in_round_ = true;
  ++rounds_;
  call_ = call;
  work_ = work;
  unfinished_.store(static_cast<std::uint32_t>(parts), std::memory_order_relaxed);
  const int shares = dealing == Dealing::kInOrder ? 1 : members;
  open_shares_.store(shares, std::memory_order_relaxed);
  for (int i = 0; i < shares; ++i) {
    const auto begin = static_cast<std::uint64_t>(parts * i / shares);
    const auto end = static_cast<std::uint64_t>(parts * (i + 1) / shares);
    shares_[static_cast<std::size_t>(i)].word.store(
        static_cast<std::uint64_t>(members) << (2 * kPartBits) | end << kPartBits | begin,
        std::memory_order_release);
  }
  round_.fetch_add(1);
  if (sleepers_.load() > 0) wake(round_, members == size_ ? members - 1 : INT_MAX);

  if (Member caller(*this, 0); caller.take()) {
    caller.give_back();
    call(work, caller);
    finish_parts(caller.taken_);
  }
  wait_for_helpers();
  in_round_ = false;
}

void Team::help(Helper& helper) {
  mine().in_round_ = true;  // what parts compute is not cut further
  helper.id = ::gettid();
  if (!places_.empty())
    bind_thread(places_[static_cast<std::size_t>(helper.slot) % places_.size()]);
  for (;;) {
    const std::uint32_t round = round_.load(std::memory_order_acquire);
    if (stops_.load(std::memory_order_relaxed)) return;
    if (Member member(*this, helper.slot); member.take()) {
      member.give_back();
      call_(work_, member);
      helper.parts.fetch_add(member.taken_, std::memory_order_relaxed);
      finish_parts(member.taken_);
    }
    const auto is_over = [&] { return round_.load(std::memory_order_relaxed) != round; };
    if (spin_until(is_over)) continue;
    helper.sleeps.fetch_add(1, std::memory_order_relaxed);
    sleepers_.fetch_add(1);
    while (round_.load() == round) sleep_while(round_, round);
    sleepers_.fetch_sub(1);
  }
}

void Team::finish_parts(std::int64_t count) {
  const auto finished = static_cast<std::uint32_t>(count);
  if (unfinished_.fetch_sub(finished) == finished && caller_sleeps_.load()) wake(unfinished_, 1);
}

void Team::wait_for_helpers() {
  if (spin_until([&] { return unfinished_.load(std::memory_order_acquire) == 0; })) return;
  ++waits_;
  caller_sleeps_.store(true);
  for (std::uint32_t left = unfinished_.load(); left > 0; left = unfinished_.load()) {
    sleep_while(unfinished_, left);
  }
  caller_sleeps_.store(false);
}

bool Team::take(int share, int slot, std::int64_t& part) {
  constexpr std::uint64_t kMask = kMostParts;
  std::atomic<std::uint64_t>& word = shares_[static_cast<std::size_t>(share)].word;
  std::uint64_t now = word.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t next = now & kMask, end = now >> kPartBits & kMask;
    if (next >= end || static_cast<std::uint64_t>(slot) >= now >> (2 * kPartBits)) return false;
    if (word.compare_exchange_weak(now, now + 1, std::memory_order_acquire,
                                   std::memory_order_relaxed)) {
      if (next + 1 == end) open_shares_.fetch_sub(1, std::memory_order_relaxed);
      part = static_cast<std::int64_t>(next);
      return true;
    }
  }
}

bool Team::Member::take() {
  for (int i = 0; i < team_->size_; ++i) {
    if (team_->open_shares_.load(std::memory_order_relaxed) == 0) return false;
    if (team_->take(share_, slot_, part_)) {
      end_ = part_ + 1;
      ++taken_;
      return true;
    }
    share_ = (share_ + 1) % team_->size_;
  }
  return false;
}

void Team::set_places(std::vector<std::vector<int>> places) {
  stop_helpers();
  places_ = std::move(places);
}

std::vector<int> Team::thread_ids() const {
  std::vector<int> ids = {::gettid()};
  for (const auto& helper : helpers_) {
    if (helper->id > 0) ids.push_back(helper->id);
  }
  return ids;
}

TeamCounts Team::counts() const {
  TeamCounts counts{.rounds = rounds_, .waits = waits_};
  for (const auto& helper : helpers_) {
    counts.helped_parts += helper->parts.load(std::memory_order_relaxed);
    counts.sleeps += helper->sleeps.load(std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace phalanx
