#pragma once
// A network in virtual time, in one thread: links between members and a coordinator with latencies
// from a seeded generator, lost connections, and a coordinator that needs time for each event. The
// ends of the links are production classes.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/frame.h"
#include "phalanx/rendezvous/link.h"
#include "phalanx/rendezvous/server_core.h"
#include "phalanx/rendezvous/timing.h"

namespace phalanx::rendezvous::simulated {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Duration = Clock::duration;

// Events in the order of their times; of one time in the order in which they were added.
class Agenda {
 public:
  Time now() const { return now_; }
  void at(Time time, std::function<void()> event) {
    events_.push({std::max(time, now_), count_++, std::move(event)});
  }
  void after(Duration time, std::function<void()> event) { at(now_ + time, std::move(event)); }
  void clear() { events_ = {}; }
  // Until `done`, or for that long. Whether it is done.
  bool run(Duration limit, const std::function<bool()>& done) {
    const Time end = now_ + limit;
    while (!done()) {
      if (events_.empty() || events_.top().time > end) {
        now_ = end;
        return done();
      }
      now_ = events_.top().time;
      const std::function<void()> event = std::move(events_.top().event);
      events_.pop();
      event();
    }
    return true;
  }

 private:
  struct Event {
    Time time;
    std::uint64_t number;
    mutable std::function<void()> event;
    bool operator<(const Event& other) const {
      return std::pair(time, number) > std::pair(other.time, other.number);
    }
  };

  Time now_{std::chrono::hours(1)};
  std::uint64_t count_ = 0;
  std::priority_queue<Event> events_{};
};

// One end of a connection.
class End final : public Link, public std::enable_shared_from_this<End> {
 public:
  // How this end's events reach its owner: at once, or when it has time.
  using Run = std::function<void(std::function<void()> event)>;

  End(Agenda& agenda, Duration latency, Run run, std::uint64_t& bytes)
      : agenda_(agenda), latency_(latency), run_(std::move(run)), bytes_(bytes) {}

  static void connect(const std::shared_ptr<End>& one, const std::shared_ptr<End>& other) {
    one->other_ = other;
    other->other_ = one;
  }
  // The network fails: what is under way is lost, and both ends learn it by and by.
  void cut(ConnectionEnd::Kind kind, const std::string& how) {
    for (const auto& end : {shared_from_this(), other_.lock()}) {
      if (!end) continue;
      end->is_cut_ = true;
      agenda_.after(latency_, [end, kind, how] { end->finish({kind, how}); });
    }
  }
  // Nothing is carried any more, and no end learns it.
  void hold() {
    is_cut_ = true;
    if (const auto other = other_.lock()) other->is_cut_ = true;
  }

  void start(OnBytes on_bytes, OnEnd on_end) override {
    hand_over(std::move(on_bytes), std::move(on_end));
    started_ = true;
    for (const std::string& bytes : std::exchange(early_, {})) receive(bytes);
    if (early_end_) finish(*early_end_);
  }
  void hand_over(OnBytes on_bytes, OnEnd on_end) override {
    on_bytes_ = std::move(on_bytes);
    on_end_ = std::move(on_end);
  }
  void send_raw(std::string bytes) override {
    if (!bytes.empty()) deliver(std::move(bytes));
  }
  void seal_with(const Key& key) override { sealer_.emplace(key); }
  void send(std::shared_ptr<const std::string> message, std::uint64_t number) override {
    if (open_ && sealer_) deliver(sealer_->seal_all(*message, {number, last_received_}));
  }
  void set_last_received(std::uint64_t number) override { last_received_ = number; }
  void set_silence_limit(std::chrono::milliseconds /*limit*/) override {}
  bool is_over_network() const override { return true; }
  bool all_sent() const override { return true; }
  void close_when_sent() override { close(); }
  void close() override {
    if (!std::exchange(open_, false)) return;
    on_bytes_ = nullptr;
    on_end_ = nullptr;
    if (const auto other = other_.lock(); other && !is_cut_) {
      agenda_.at(arrival(), [other] {
        other->finish({ConnectionEnd::Kind::kClosed, "its connection was closed"});
      });
    }
  }
  bool is_open() const override { return open_; }
  bool peer_is_stopped() override { return false; }

 private:
  // In the order of sending.
  Time arrival() { return last_arrival_ = std::max(last_arrival_, agenda_.now() + latency_); }
  void deliver(std::string bytes) {
    const auto other = other_.lock();
    if (!open_ || !other) return;
    bytes_ += bytes.size();
    agenda_.at(arrival(), [this, self = shared_from_this(), other, bytes = std::move(bytes)] {
      if (!is_cut_) other->receive(bytes);
    });
  }
  void receive(const std::string& bytes) {
    if (!open_) return;
    if (!started_) return early_.push_back(bytes);
    run_([self = shared_from_this(), bytes] { self->take(bytes); });
  }
  void take(const std::string& bytes) {
    const OnBytes on_bytes = on_bytes_;
    if (!open_ || !on_bytes) return;
    try {
      on_bytes(bytes);
    } catch (const std::exception& failure) {
      const OnEnd on_end = on_end_;
      close();
      if (on_end) {
        on_end({ConnectionEnd::Kind::kFault,
                std::string("its connection was ended: ") + failure.what()});
      }
    }
  }
  void finish(const ConnectionEnd& end) {
    if (!open_) return;
    if (!started_) {
      early_end_ = end;
      return;
    }
    run_([self = shared_from_this(), end] {
      if (!self->open_) return;
      const OnEnd on_end = std::exchange(self->on_end_, nullptr);
      self->open_ = false;
      self->on_bytes_ = nullptr;
      if (on_end) on_end(end);
    });
  }

  Agenda& agenda_;
  Duration latency_;
  Run run_;
  std::uint64_t& bytes_;
  std::weak_ptr<End> other_{};
  OnBytes on_bytes_{};
  OnEnd on_end_{};
  bool open_ = true;
  bool started_ = false;
  bool is_cut_ = false;
  Time last_arrival_{};
  std::uint64_t last_received_ = 0;
  std::optional<FrameSealer> sealer_{};
  std::deque<std::string> early_{};  // before start()
  std::optional<ConnectionEnd> early_end_{};
};

// The coordinator's process: it takes one event after the other, each takes `cost`, and connections
// wait in the system's queue until the gate has room.
class Coordinator {
 public:
  Coordinator(Agenda& agenda, const CoordinatorOptions& options, Duration cost)
      : core(options, agenda.now()), agenda_(agenda), cost_(cost) {
    tick_at(agenda_.now() + kTickPeriod);
  }

  // Runs the event when the process has time for it.
  void run(std::function<void()> event) {
    waiting_.push_back(std::move(event));
    if (waiting_.size() == 1 && !is_busy_) serve();
  }
  // False: the queue of connections is full.
  bool connect(const std::string& address, std::shared_ptr<End> end) {
    constexpr std::size_t kBacklog = 4096;
    if (backlog_.size() >= kBacklog) return false;
    backlog_.emplace_back(address, std::move(end));
    accept();
    return true;
  }
  // The process is stopped for so long, as soon as it takes the next event.
  void pause(Duration time) { pause_ = time; }
  std::uint64_t ticks() const { return ticks_; }

  ServerCore core;

 private:
  void run_first(std::function<void()> event) {
    waiting_.push_front(std::move(event));
    if (waiting_.size() == 1 && !is_busy_) serve();
  }
  void serve() {
    is_busy_ = true;
    agenda_.after(cost_ + std::exchange(pause_, Duration{}), [this] {
      const std::function<void()> event = std::move(waiting_.front());
      waiting_.pop_front();
      event();
      after_event();
      is_busy_ = false;
      if (!waiting_.empty()) serve();
    });
  }
  // As Server's function of that name.
  void after_event() {
    const Time now = agenda_.now();
    if (next_tick_ > now + core.tick_period(now)) tick_at(now + core.tick_period(now));
    accept();
  }
  void accept() {
    if (is_accepting_ || backlog_.empty() || !core.has_room(agenda_.now())) return;
    is_accepting_ = true;
    run([this] {
      is_accepting_ = false;
      if (backlog_.empty() || !core.has_room(agenda_.now())) return;
      const auto [address, end] = std::move(backlog_.front());
      backlog_.pop_front();
      const std::optional<ServerCore::Id> id = core.enter(address, true, agenda_.now());
      if (!id) return end->close();
      core.open(*id, end);
      end->start(
          [this, id = *id](std::string_view bytes) { core.on_bytes(id, bytes, agenda_.now()); },
          [this, id = *id](const ConnectionEnd& how) {
            core.on_connection_end(id, how, agenda_.now());
          });
    });
  }
  void tick_at(Time time) {
    next_tick_ = time;
    agenda_.at(time, [this, generation = ++tick_generation_] {
      if (generation != tick_generation_) return;
      // Before the bytes that wait, which is the worst for those who sent them.
      run_first([this, generation] {
        if (generation != tick_generation_) return;
        ++ticks_;
        core.tick(agenda_.now());
        tick_at(agenda_.now() + core.tick_period(agenda_.now()));
      });
    });
  }

  Agenda& agenda_;
  Duration cost_;
  std::deque<std::function<void()>> waiting_{};
  std::deque<std::pair<std::string, std::shared_ptr<End>>> backlog_{};
  bool is_busy_ = false;
  bool is_accepting_ = false;
  Time next_tick_{};
  std::uint64_t tick_generation_ = 0;
  std::uint64_t ticks_ = 0;
  Duration pause_{};
};

// Connects addresses with the coordinator.
class Network {
 public:
  Network(Agenda& agenda, Coordinator& coordinator, std::uint64_t seed)
      : agenda_(agenda), coordinator_(coordinator), random_(seed) {}

  std::uint64_t random(std::uint64_t below) { return random_() % below; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t connections() const { return connections_; }

  // The member's end of a new connection, later; null: nobody answers. `after_event` is called
  // after each event of this end.
  void dial(
      const std::string& address, std::function<void(std::shared_ptr<End>)> answer,
      std::function<void()> after_event = [] {}) {
    // Half of a round trip: 20 to 500 us, and once in a while 20 ms.
    const Duration latency = random(50) == 0 ? std::chrono::milliseconds(20)
                                             : std::chrono::microseconds(20 + random(480));
    agenda_.after(2 * latency, [this, address, latency, answer = std::move(answer),
                                after_event = std::move(after_event)] {
      const auto at_once = [after_event](const std::function<void()>& event) {
        event();
        after_event();
      };
      const auto when_idle = [this](std::function<void()> event) {
        coordinator_.run(std::move(event));
      };
      const auto near = std::make_shared<End>(agenda_, latency, at_once, bytes_);
      const auto far = std::make_shared<End>(agenda_, latency, when_idle, bytes_);
      End::connect(near, far);
      ++connections_;
      if (coordinator_.connect(address, far)) return answer(near);
      // TCP tries again after a second, and the member gives up before the next time.
      agenda_.after(std::chrono::seconds(1), [this, address, near, far, answer] {
        const bool is_queued = coordinator_.connect(address, far);
        answer(is_queued ? near : nullptr);
      });
    });
  }

 private:
  Agenda& agenda_;
  Coordinator& coordinator_;
  std::mt19937_64 random_;
  std::uint64_t bytes_ = 0;
  std::uint64_t connections_ = 0;
};

}  // namespace phalanx::rendezvous::simulated
