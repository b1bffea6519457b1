#include "phalanx/rendezvous/member.h"

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "phalanx/base/log.h"
#include "phalanx/rendezvous/joiner.h"
#include "phalanx/rendezvous/member_link.h"
#include "phalanx/rendezvous/member_state.h"

namespace phalanx {
namespace {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): this file is all about it

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kBeatEvery = std::chrono::milliseconds(500);
// Ticks that are late by more than this: this process itself did not run.
constexpr auto kOwnGap = std::chrono::seconds(1);
// For the coordinator to hear of a failure or a goodbye.
constexpr auto kLastWord = std::chrono::seconds(1);

class ConnectedMember : public Member {
 public:
  using Time = Clock::time_point;

  ConnectedMember(const MemberOptions& options, std::unique_ptr<asio::io_context> context,
                  Joined joined)
      : options_(options),
        places_(std::move(joined.welcome.places)),
        coordinator_(std::move(joined.welcome.coordinator)),
        hosted_by_(joined.welcome.hosted_by),
        device_(std::move(joined.device)),
        context_(std::move(context)),
        work_(context_->get_executor()),
        timer_(*context_),
        link_(*context_, options_, std::move(joined),
              {.hear = [this](Message&& message) { take(std::move(message)); },
               .lose = [this](const std::string& how) { lose(how); },
               .hang = [this](Clock::duration time) { hang(time); },
               .cut_off = [this](bool is_cut_off) { set_cut_off(is_cut_off); }}) {
    const bool one_host = places_.back().host == 0 &&
                          std::all_of(places_.begin(), places_.end(),
                                      [](const RankPlace& place) { return place.host == 0; });
    if (one_host && device_ == "lo") device_.clear();
    const int own = options_.environment.rank;
    const bool is_near = own < std::ssize(places_) &&
                         places_[static_cast<std::size_t>(own)].host == places_.front().host;
    // A coordinator that lives and says nothing for so long hangs.
    const std::chrono::milliseconds usual = is_near ? kSilence : kFarSilence;
    link_.set_silence(options_.silence_limit ? milliseconds_of(*options_.silence_limit) : usual);
    state_.limit(options_.silence_limit, options_.still_limit);
    ticked_ = Clock::now();
    asio::post(*context_, [this] { begin(); });
    thread_ = std::thread([this] { run(); });
  }

  ~ConnectedMember() override {
    asio::post(*context_, [this] {
      link_.close();
      context_->stop();
    });
    thread_.join();
  }

  // ---- what the rank says

  void tick() noexcept override { state_.tick(); }
  Progress* progress() noexcept override { return &state_.progress(); }
  void limit_stillness(std::chrono::milliseconds limit) override {
    state_.limit_stillness(std::chrono::duration<double>(limit).count());
  }
  void begin_wait(const CommPlace& at, const std::vector<int>& missing) override {
    state_.begin_wait(at, missing);
  }
  void end_wait() noexcept override { state_.end_wait(); }
  void waited(Clock::duration time) noexcept override { state_.add_waited(time); }
  void begin_busy(std::string what) override {
    if (state_.begin_busy(std::move(what))) beat_now();
  }
  void end_busy() noexcept override {
    state_.tick();
    if (!state_.end_busy()) return;
    try {
      beat_now();
    } catch (const std::exception&) {
      // No memory for it: the next regular one says so.
    }
  }
  void step(std::int64_t iteration) noexcept override {
    state_.step(iteration);
    state_.tick();
  }

  std::string busy_ranks() const override {
    const std::lock_guard lock(mutex_);
    return busy_ranks_;
  }

  void fail(std::string_view reason) noexcept override;
  void leave() noexcept override;

  std::optional<RankFailure> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void on_failure(std::function<void()> wake) override;

  // ---- what all exchange

  const std::vector<RankPlace>& places() const override { return places_; }
  const std::string& network_device() const override { return device_; }
  std::vector<std::string> gather(std::string mine) override {
    PHALANX_CHECK(mine.size() <= kLongestGathered, "a gathered text of {} bytes", mine.size());
    return exchange(RoundKind::kGather, std::move(mine));
  }
  std::string broadcast(std::string of_rank_0) override {
    if (options_.environment.rank != 0) of_rank_0.clear();
    PHALANX_CHECK(of_rank_0.size() <= kLongestBroadcast, "a broadcast of {} bytes",
                  of_rank_0.size());
    std::vector<std::string> texts = exchange(RoundKind::kBroadcast, std::move(of_rank_0));
    if (texts.size() != 1) throw UnavailableError("a broadcast of {} texts", texts.size());
    return std::move(texts.front());
  }

 private:
  // On the member's thread.
  void run();
  void begin();
  void take(Message&& message);
  void take(Ping&& ping);
  void lose(const std::string& how);
  void hang(Clock::duration time);
  void set_cut_off(bool is_cut_off);
  void on_tick();
  void arm_timer();
  void beat();
  void set_failure(RankFailure failure);
  void check_for_stuck_rank(Time now);

  // On any.
  void beat_now() {
    asio::post(*context_, [this] { beat(); });
  }
  std::vector<std::string> exchange(RoundKind kind, std::string mine);
  // Until `done`, the coordinator is gone, or `limit` has passed in which it could be reached.
  void wait_while_connected(std::unique_lock<std::mutex>& lock, Clock::duration limit,
                            const std::function<bool()>& done);

  const MemberOptions options_;
  std::vector<RankPlace> places_;
  std::string coordinator_;
  int hosted_by_;
  std::string device_;
  MemberState state_{};

  // Of the member's thread.
  std::unique_ptr<asio::io_context> context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer timer_;
  MemberLink link_;
  Time ticked_{};
  Time beaten_{};
  bool said_goodbye_ = false;
  bool said_stuck_ = false;

  mutable std::mutex mutex_{};
  std::condition_variable changed_{};
  std::optional<RankFailure> failure_{};
  Time failed_at_{};
  bool leaving_ = false;  // failures are no longer this rank's
  bool goodbye_heard_ = false;
  bool connected_ = true;  // or will be again
  bool cut_off_ = false;   // between two connections
  std::string busy_ranks_{};
  std::int64_t next_round_ = 0;
  std::optional<RoundResult> result_{};

  // Held while the function runs; the member's thread and on_failure() take it.
  std::recursive_mutex wake_mutex_{};
  std::function<void()> wake_{};
  bool woken_ = false;

  std::thread thread_{};
};

void ConnectedMember::run() {
  while (!context_->stopped()) {
    try {
      context_->run();
    } catch (const std::exception& error) {
      log_warning("the rendezvous' member: {}", error.what());
    }
  }
}

void ConnectedMember::begin() {
  ticked_ = Clock::now();
  arm_timer();
  beat();
  link_.begin();
}

void ConnectedMember::take(Message&& message) {
  if (auto* failed = std::get_if<Failed>(&message)) {
    if (failed->of_own_group) return set_failure(std::move(failed->failure));
    if (options_.on_rank_failure) options_.on_rank_failure(failed->failure);
    return;
  }
  if (auto* ping = std::get_if<Ping>(&message)) return take(std::move(*ping));
  const std::lock_guard lock(mutex_);
  if (auto* result = std::get_if<RoundResult>(&message)) {
    result_ = std::move(*result);
    changed_.notify_all();
  } else if (std::holds_alternative<GoodbyeHeard>(message)) {
    goodbye_heard_ = true;
    changed_.notify_all();
  } else {
    throw UnavailableError("it speaks out of turn");
  }
}

void ConnectedMember::take(Ping&& ping) {
  if (ping.silence.count() > 0 && !options_.silence_limit) link_.set_silence(ping.silence);
  const std::lock_guard lock(mutex_);
  busy_ranks_ = std::move(ping.busy);
}

void ConnectedMember::set_cut_off(bool is_cut_off) {
  {
    const std::lock_guard lock(mutex_);
    cut_off_ = is_cut_off;
  }
  if (!is_cut_off) beat();
}

void ConnectedMember::hang(Clock::duration time) {
  set_failure({hosted_by_, ErrorCode::kHang,
               fmt::format("{}, where all meet, hangs: it has said nothing for {:.1f} s",
                           coordinator_, std::chrono::duration<double>(time).count())});
}

void ConnectedMember::lose(const std::string& how) {
  set_failure({hosted_by_, ErrorCode::kTemporary,
               fmt::format("{}, where all meet, is gone: {}", coordinator_, how)});
  const std::lock_guard lock(mutex_);
  connected_ = cut_off_ = false;
  changed_.notify_all();
}

void ConnectedMember::set_failure(RankFailure failure) {
  bool is_hang = false;
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || leaving_) return;
    is_hang = failure.code == ErrorCode::kHang || failure.code == ErrorCode::kIo;
    failure_ = std::move(failure);
    failed_at_ = Clock::now();
    changed_.notify_all();
  }
  if (is_hang && options_.on_hang) options_.on_hang();
  const std::lock_guard lock(wake_mutex_);
  if (wake_ && !std::exchange(woken_, true)) wake_();
}

void ConnectedMember::on_failure(std::function<void()> wake) {
  const std::lock_guard lock(wake_mutex_);
  wake_ = std::move(wake);
  woken_ = wake_ && failure().has_value();
  if (woken_) wake_();
}

void ConnectedMember::arm_timer() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) on_tick();
  });
}

void ConnectedMember::on_tick() {
  arm_timer();
  const Time now = Clock::now();
  // A process that was stopped has heard nobody, and that is nobody's fault.
  if (now - ticked_ > kOwnGap + kTick) link_.account_for_own_gap(now - ticked_);
  ticked_ = now;
  if (now - beaten_ >= kBeatEvery) beat();
  link_.check(now);
  check_for_stuck_rank(now);
}

void ConnectedMember::check_for_stuck_rank(Time now) {
  if (!options_.on_stuck || said_stuck_) return;
  std::optional<RankFailure> failure;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_ || leaving_ || now - failed_at_ < options_.grace) return;
    failure = failure_;
  }
  said_stuck_ = true;
  options_.on_stuck(*failure);
}

void ConnectedMember::beat() {
  if (said_goodbye_) return;
  beaten_ = Clock::now();
  link_.send(Beat{state_.heartbeat(beaten_)});
}

void ConnectedMember::fail(std::string_view reason) noexcept {
  try {
    asio::post(*context_, [this, text = std::string(reason)] {
      if (!said_goodbye_) link_.send(Failing{text});
    });
    std::unique_lock lock(mutex_);
    wait_while_connected(lock, kLastWord, [&] { return failure_ || leaving_; });
  } catch (const std::exception&) {
    // It cannot be said: the end of the connection will.
  }
}

void ConnectedMember::leave() noexcept {
  try {
    std::unique_lock lock(mutex_);
    if (leaving_) return;
    leaving_ = true;
    asio::post(*context_, [this] {
      link_.send(Goodbye{});
      said_goodbye_ = true;
    });
    wait_while_connected(lock, kLastWord, [&] { return goodbye_heard_; });
  } catch (const std::exception&) {
    // Likewise.
  }
}

void ConnectedMember::wait_while_connected(std::unique_lock<std::mutex>& lock,
                                           Clock::duration limit,
                                           const std::function<bool()>& done) {
  Time until = Clock::now() + limit;
  while (!done() && connected_ && Clock::now() < until) {
    changed_.wait_for(lock, kTick);
    if (cut_off_) until = Clock::now() + limit;
  }
}

std::vector<std::string> ConnectedMember::exchange(RoundKind kind, std::string mine) {
  const std::string name = kind == RoundKind::kGather ? "gather" : "broadcast";
  std::unique_lock lock(mutex_);
  PHALANX_CHECK(!leaving_, "a {} of texts after goodbye", name);
  const std::int64_t round = next_round_++;
  const Time begin = Clock::now();
  asio::post(*context_,
             [this, part = RoundPart{round, kind, std::move(mine)}] { link_.send(part); });
  // Who is missing the coordinator knows.
  state_.begin_wait({options_.environment.rank, "rendezvous", name + " of texts", round}, {});
  // Launchers wait for each other for as long as ranks run.
  const bool limited = options_.role == MemberRole::kRank;
  Clock::duration waited{};
  while (!failure_ && connected_ && !result_ && !(limited && waited >= options_.join_timeout)) {
    const Time before = Clock::now();
    changed_.wait_for(lock, kBeatEvery);
    if (busy_ranks_.empty()) waited += Clock::now() - before;
  }
  state_.end_wait();
  state_.tick();
  state_.add_waited(Clock::now() - begin);
  if (result_) {
    RoundResult result = std::move(*std::exchange(result_, std::nullopt));
    if (result.round != round)
      throw UnavailableError("texts of exchange {} for {}", result.round, round);
    if (kind == RoundKind::kGather && result.texts.size() != places_.size()) {
      throw UnavailableError("{} gathered texts of {} ranks", result.texts.size(), places_.size());
    }
    return std::move(result.texts);
  }
  if (failure_) throw Error(failure_->code, failure_->reason);
  throw UnavailableError("a {} of texts (number {}) has not ended within {:.3g} s", name, round,
                         std::chrono::duration<double>(options_.join_timeout).count());
}

}  // namespace

std::unique_ptr<Member> Member::join(const MemberOptions& options) {
  auto context = std::make_unique<asio::io_context>(1);
  Joined joined = join_coordinator(*context, options);
  return std::make_unique<ConnectedMember>(options, std::move(context), std::move(joined));
}

}  // namespace phalanx
