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
#include "phalanx/rendezvous/member_core.h"
#include "phalanx/rendezvous/member_mail.h"
#include "phalanx/rendezvous/rank_activity.h"
#include "phalanx/rendezvous/socket_dialer.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx {
namespace {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): this file is all about it

class ConnectedMember : public Member, private MemberCore::Host {
 public:
  using Clock = RankWatch::Clock;
  using Time = Clock::time_point;

  ConnectedMember(const MemberOptions& options, std::unique_ptr<asio::io_context> context,
                  JoinedOverSocket over)
      : options_(options),
        device_(over.joined.device),
        mail_([this](ControlMessage message) {
          asio::post(*context_, [this, kept = std::move(message)] { core_.send(kept); });
        }),
        context_(std::move(context)),
        work_(context_->get_executor()),
        timer_(*context_),
        dialer_(*context_, over.address),
        core_(*this, dialer_, options_, std::move(over.joined)),
        places_(core_.places().places()) {
    if (core_.places().hosts() == 1 && device_ == "lo") device_.clear();
    activity_.limit(options_.silence_limit, options_.still_limit);
    asio::post(*context_, [this] {
      arm_timer();
      core_.begin();
    });
    thread_ = std::thread([this] { run(); });
  }

  ~ConnectedMember() override {
    asio::post(*context_, [this] {
      core_.close();
      context_->stop();
    });
    thread_.join();
  }

  // ---- reports of the rank's threads

  void tick() noexcept override { activity_.tick(); }
  Progress* progress() noexcept override { return &activity_.progress(); }
  void limit_stillness(std::chrono::milliseconds limit) override {
    activity_.limit_stillness(std::chrono::duration<double>(limit).count());
  }
  void begin_wait(const CommPlace& place, const std::vector<int>& missing) override {
    activity_.begin_wait(place, missing);
  }
  void end_wait() noexcept override { activity_.end_wait(); }
  void waited(Clock::duration time) noexcept override { activity_.add_waited(time); }
  void begin_busy(std::string what) override {
    if (activity_.begin_busy(std::move(what))) send_heartbeat_soon();
  }
  void end_busy() noexcept override {
    activity_.tick();
    if (!activity_.end_busy()) return;
    try {
      send_heartbeat_soon();
    } catch (const std::exception&) {
      // No memory: the next regular heartbeat reports it.
    }
  }
  void step(std::int64_t iteration) noexcept override {
    activity_.step(iteration);
    activity_.tick();
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

  // ---- exchanges of texts

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

  // ---- the mailbox

  void post(const std::string& name, std::string text) override {
    mail_.post(name, std::move(text));
  }
  std::string read(const std::string& name) override { return mail_.read(name); }
  std::optional<std::string> read_unless(const std::stop_token& stop,
                                         const std::string& name) override {
    return mail_.read_unless(stop, name);
  }
  std::optional<std::string> take(const std::string& name) override { return mail_.take(name); }

 private:
  struct Result {
    std::int64_t round;
    std::vector<std::string> texts;
  };

  // On the member's thread.
  void run();
  void arm_timer();
  void check_for_stuck_rank(Time now);

  // ---- MemberCore::Host, on the member's thread

  Time now() override { return Clock::now(); }
  Heartbeat heartbeat(Time now) override { return activity_.heartbeat(now); }
  void on_failure(RankFailure&& failure) override;
  void on_rank_failure(const RankFailure& failure) override {
    if (options_.on_rank_failure) options_.on_rank_failure(failure);
  }
  void on_texts(std::int64_t round, std::vector<std::string>&& texts) override;
  void on_mail(Mail&& mail) override { mail_.on_answer(std::move(mail)); }
  void on_busy_ranks(std::string&& text) override;
  void on_goodbye_confirmed() override;
  void on_cut_off(bool is_cut_off) override;
  void on_coordinator_gone() override;

  // On any thread.
  void send_heartbeat_soon() {
    asio::post(*context_, [this] { core_.send_heartbeat(); });
  }
  std::vector<std::string> exchange(RoundKind kind, std::string mine);
  // Waits until `done`, the coordinator is gone, or it has been reachable for `limit`.
  void wait_while_connected(std::unique_lock<std::mutex>& lock, Clock::duration limit,
                            const std::function<bool()>& done);

  const MemberOptions options_;
  std::string device_;
  RankActivity activity_{};
  MemberMail mail_;

  // Used by the member's thread only.
  std::unique_ptr<asio::io_context> context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer timer_;
  SocketDialer dialer_;
  MemberCore core_;
  const std::vector<RankPlace> places_;  // used by any thread
  bool stuck_reported_ = false;

  mutable std::mutex mutex_{};
  std::condition_variable state_changed_{};
  std::optional<RankFailure> failure_{};
  Time failed_at_{};
  bool leaving_ = false;  // failures are ignored from now on
  bool goodbye_confirmed_ = false;
  bool connected_ = true;  // false: the coordinator is gone for good
  bool cut_off_ = false;   // reconnecting
  std::string busy_ranks_{};
  std::int64_t next_round_ = 0;
  std::optional<Result> result_{};

  // Held while wake_ runs, on the member's thread or in on_failure().
  std::recursive_mutex wake_mutex_{};
  std::function<void()> wake_{};
  bool wake_called_ = false;

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

void ConnectedMember::on_texts(std::int64_t round, std::vector<std::string>&& texts) {
  const std::lock_guard lock(mutex_);
  result_ = Result{round, std::move(texts)};
  state_changed_.notify_all();
}

void ConnectedMember::on_goodbye_confirmed() {
  const std::lock_guard lock(mutex_);
  goodbye_confirmed_ = true;
  state_changed_.notify_all();
}

void ConnectedMember::on_busy_ranks(std::string&& text) {
  const std::lock_guard lock(mutex_);
  busy_ranks_ = std::move(text);
}

void ConnectedMember::on_cut_off(bool is_cut_off) {
  const std::lock_guard lock(mutex_);
  cut_off_ = is_cut_off;
}

void ConnectedMember::on_coordinator_gone() {
  const std::lock_guard lock(mutex_);
  connected_ = cut_off_ = false;
  state_changed_.notify_all();
}

void ConnectedMember::on_failure(RankFailure&& failure) {
  bool is_hang = false;
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || leaving_) return;
    is_hang = failure.code == ErrorCode::kHang || failure.code == ErrorCode::kIo;
    failure_ = std::move(failure);
    failed_at_ = Clock::now();
    mail_.fail(Error(failure_->code, failure_->reason));
    state_changed_.notify_all();
  }
  if (is_hang && options_.on_hang) options_.on_hang();
  const std::lock_guard lock(wake_mutex_);
  if (wake_ && !std::exchange(wake_called_, true)) wake_();
}

void ConnectedMember::on_failure(std::function<void()> wake) {
  const std::lock_guard lock(wake_mutex_);
  wake_ = std::move(wake);
  wake_called_ = wake_ && failure().has_value();
  if (wake_called_) wake_();
}

void ConnectedMember::arm_timer() {
  timer_.expires_after(kTickPeriod);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    arm_timer();
    core_.tick();
    check_for_stuck_rank(Clock::now());
  });
}

void ConnectedMember::check_for_stuck_rank(Time now) {
  if (!options_.on_stuck || stuck_reported_) return;
  std::optional<RankFailure> failure;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_ || leaving_ || now - failed_at_ < options_.grace) return;
    failure = failure_;
  }
  stuck_reported_ = true;
  options_.on_stuck(*failure);
}

void ConnectedMember::fail(std::string_view reason) noexcept {
  try {
    asio::post(*context_, [this, text = std::string(reason)] { core_.send(Failing{text}); });
    std::unique_lock lock(mutex_);
    wait_while_connected(lock, kLastMessageWait, [&] { return failure_ || leaving_; });
  } catch (const std::exception&) {
    // It cannot be sent: the end of the connection will show it.
  }
}

void ConnectedMember::leave() noexcept {
  try {
    std::unique_lock lock(mutex_);
    if (leaving_) return;
    leaving_ = true;
    mail_.fail(UnavailableError("the rank has left the run"));
    asio::post(*context_, [this] { core_.say_goodbye(); });
    wait_while_connected(lock, kLastMessageWait, [&] { return goodbye_confirmed_; });
  } catch (const std::exception&) {
    // As in fail().
  }
}

void ConnectedMember::wait_while_connected(std::unique_lock<std::mutex>& lock,
                                           Clock::duration limit,
                                           const std::function<bool()>& done) {
  Time until = Clock::now() + limit;
  while (!done() && connected_ && Clock::now() < until) {
    state_changed_.wait_for(lock, kTickPeriod);
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
             [this, part = RoundPart{round, kind, std::move(mine)}] { core_.send(part); });
  // The coordinator knows which ranks are missing.
  activity_.begin_wait({options_.environment.rank, "rendezvous", name + " of texts", round}, {});
  // Launchers wait for each other for as long as ranks run.
  const bool limited = options_.role == MemberRole::kRank;
  Clock::duration waited{};
  while (!failure_ && connected_ && !result_ && !(limited && waited >= options_.join_timeout)) {
    const Time before = Clock::now();
    state_changed_.wait_for(lock, kHeartbeatPeriod);
    if (busy_ranks_.empty()) waited += Clock::now() - before;
  }
  activity_.end_wait();
  activity_.tick();
  activity_.add_waited(Clock::now() - begin);
  if (result_) {
    Result result = std::move(*std::exchange(result_, std::nullopt));
    if (result.round != round)
      throw UnavailableError("texts of exchange {} for {}", result.round, round);
    if (kind == RoundKind::kGather && result.texts.size() != places().size()) {
      throw UnavailableError("{} gathered texts of {} ranks", result.texts.size(), places().size());
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
  JoinedOverSocket joined = join_coordinator(*context, options);
  return std::make_unique<ConnectedMember>(options, std::move(context), std::move(joined));
}

}  // namespace phalanx
