#pragma once
// Members in a simulated network (simulated_network_test_support.h): production classes without
// threads and sockets.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/rendezvous/join_attempt.h"
#include "phalanx/rendezvous/member_core.h"
#include "phalanx/rendezvous/simulated_network_test_support.h"

namespace phalanx::rendezvous::simulated {

class SimulatedDialer final : public Dialer {
 public:
  SimulatedDialer(Network& network, std::string address, std::function<void()> after_event)
      : network_(network), address_(std::move(address)), after_event_(std::move(after_event)) {}
  void dial(std::function<void(Answer answer)> on_answer) override {
    const auto call = std::make_shared<std::function<void(Answer)>>(std::move(on_answer));
    call_ = call;
    const auto on_end = [this, call](const std::shared_ptr<End>& end) {
      const std::function<void(Answer)> answer = std::exchange(*call, nullptr);
      if (!answer) {
        if (end) end->close();
        return;
      }
      end_ = end;
      answer({end, end ? "" : "no answer", false});
    };
    network_.dial(address_, on_end, after_event_);
  }
  void stop() override {
    if (const auto call = std::exchange(call_, nullptr)) *call = nullptr;
  }
  // Of the last connection.
  std::shared_ptr<End> end() const { return end_.lock(); }

 private:
  Network& network_;
  std::string address_;
  std::function<void()> after_event_;
  std::shared_ptr<std::function<void(Answer)>> call_{};
  std::weak_ptr<End> end_{};
};

// A rank that joins, takes a step every half second, and says goodbye when it is told to.
class SimulatedMember final : public MemberCore::Host {
 public:
  SimulatedMember(Agenda& agenda, Network& network, const MemberOptions& options,
                  std::string address)
      : agenda_(agenda),
        options_(options),
        address_(std::move(address)),
        dialer_(network, address_, [this] { look_at_attempt(false); }) {
    const LaunchEnvironment& place = options_.environment;
    request_ = {place.world_size,
                place.node,
                place.local_rank,
                place.local_size,
                1000 + place.rank,
                address_,
                address_,
                "session " + std::to_string(place.rank),
                0};
  }

  // As Joiner: one attempt after the other.
  void join() {
    dialer_.dial([this](Dialer::Answer answer) {
      if (!answer.link) return try_again(false);
      attempt_.emplace(answer.link, options_.secret,
                       Hello{MemberRole::kRank, options_.environment.rank, 0, "run"}, request_,
                       session_);
      ++attempts_;
      attempt_->start();
      agenda_.after(kHandshakeTimeout, [this, attempt = attempts_] {
        if (attempt == attempts_) look_at_attempt(true);
      });
    });
  }

  bool has_joined() const { return core_.has_value(); }
  int attempts() const { return attempts_; }
  std::vector<RankPlace> places() const { return core_->places().places(); }
  const std::optional<RankFailure>& failure() const { return failure_; }
  bool is_cut_off() const { return cut_off_; }
  int reconnections() const { return reconnections_; }
  bool is_confirmed() const { return confirmed_; }
  const std::string& address() const { return address_; }
  void say_goodbye() { core_->say_goodbye(); }
  void send(const ControlMessage& message) { core_->send(message); }
  std::vector<std::string> take_texts() { return std::exchange(texts_, {}); }
  std::shared_ptr<End> end() const { return dialer_.end(); }
  // Its process ends: it does nothing any more, and the system closes its connection.
  void die() {
    dead_ = true;
    core_->close();
  }
  // Its host has no power: nothing more is heard of it.
  void vanish() {
    dead_ = true;
    if (const auto end = dialer_.end())
      end->cut(ConnectionEnd::Kind::kCut, "its connection was cut");
  }
  bool is_dead() const { return dead_; }

 private:
  void look_at_attempt(bool is_late) {
    if (!attempt_) return;
    if (attempt_->welcome()) return begin();
    const bool is_proving = attempt_->handshake().state() == HandshakeState::kPending;
    if (attempt_->refusal() || attempt_->end() || (is_proving && is_late)) {
      try_again(is_proving && attempt_->end().has_value());
    }
  }
  void try_again(bool closed_early) {
    attempt_.reset();
    if (closed_early) pause_ = kShortestPause;
    agenda_.after(pause_, [this] { join(); });
    pause_ = std::min<Duration>(2 * pause_, kLongestPause);
  }
  void begin() {
    core_.emplace(*this, dialer_, options_,
                  Joined{attempt_->take_link(), attempt_->take_opener(), std::move(session_),
                         request_.session, options_.secret, *attempt_->welcome(), ""});
    attempt_.reset();
    core_->begin();
    tick();
  }
  void tick() {
    if (dead_ || confirmed_) return;
    core_->tick();
    agenda_.after(kTickPeriod, [this] { tick(); });
  }

  Time now() override { return agenda_.now(); }
  Heartbeat heartbeat(Time /*now*/) override {
    Heartbeat heartbeat;
    heartbeat.ticks = static_cast<std::uint64_t>(++steps_);
    heartbeat.iteration = steps_;
    heartbeat.steps = steps_;
    heartbeat.step_seconds = 0.5 * static_cast<double>(steps_);
    heartbeat.waited_seconds = 0.1 * static_cast<double>(steps_);
    return heartbeat;
  }
  void on_failure(RankFailure&& failure) override {
    if (!failure_) failure_ = std::move(failure);
  }
  void on_rank_failure(const RankFailure& /*failure*/) override {}
  void on_texts(std::int64_t /*round*/, std::vector<std::string>&& texts) override {
    texts_ = std::move(texts);
  }
  void on_mail(Mail&& /*mail*/) override {}
  void on_busy_ranks(std::string&& /*text*/) override {}
  void on_goodbye_confirmed() override {
    confirmed_ = true;
    agenda_.after({}, [this] { core_->close(); });
  }
  void on_cut_off(bool is_cut_off) override {
    cut_off_ = is_cut_off;
    if (!is_cut_off) ++reconnections_;
  }
  void on_coordinator_gone() override {}

  Agenda& agenda_;
  const MemberOptions options_;
  const std::string address_;
  SimulatedDialer dialer_;
  JoinRequest request_{};
  Session session_{};
  std::optional<JoinAttempt> attempt_{};
  std::optional<MemberCore> core_{};
  Duration pause_ = kShortestPause;
  int attempts_ = 0;
  std::int64_t steps_ = 0;
  std::optional<RankFailure> failure_{};
  std::vector<std::string> texts_{};
  int reconnections_ = 0;
  bool cut_off_ = false;
  bool confirmed_ = false;
  bool dead_ = false;
};

}  // namespace phalanx::rendezvous::simulated
