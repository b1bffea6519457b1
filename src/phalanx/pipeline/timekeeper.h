#pragma once
// Simulated time: the one place that says who goes on when. Workers, as the ranks of a pipeline,
// have a clock each. A worker goes on by itself until it needs what has not happened yet, and is
// called again when that has happened.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace phalanx {

// Something that happens once: a result is there, a message has moved.
struct TimedEvent {
  static constexpr double kNotYet = -1.0;  // nothing happens before time 0
  static constexpr int kNobody = -1;

  double time = kNotYet;
  int waiting = kNobody;  // the last worker that waits for it; the others are in Timekeeper

  bool has_happened() const { return time != kNotYet; }
};

class Timekeeper {
 public:
  // Who goes on of those that are ready. Where workers only wait for each other, all times are the
  // same in any order, which is the fastest; where they share something, the earliest comes first.
  enum class Order : std::uint8_t { kAny, kByTime };

  explicit Timekeeper(std::size_t workers, Order order = Order::kAny)
      : order_(order), clocks_(workers) {
    ready_.reserve(workers);
    for (std::size_t worker = workers; worker-- > 0;) call_at(worker, 0.0);
  }

  // A worker's clock. It may be set forward while the worker goes on.
  double& now(std::size_t worker) { return clocks_[worker].now; }
  double now(std::size_t worker) const { return clocks_[worker].now; }

  // Calls go_on(worker, time) for each at time 0, and again after each wait, until nobody is ready.
  // A worker that still waits then does so for ever.
  template <typename GoOn>
  void run(GoOn go_on) {
    while (!ready_.empty()) {
      if (order_ == Order::kByTime) std::ranges::pop_heap(ready_, comes_after);
      const Ready ready = ready_.back();
      ready_.pop_back();
      go_on(ready.worker, ready.time);
    }
  }

  // Has the worker called at this time, without an event.
  void call_at(std::size_t worker, double time) {
    ready_.push_back({time, worker});
    if (order_ == Order::kByTime) std::ranges::push_heap(ready_, comes_after);
  }

  // The worker is called again when the event has happened, and must return until then.
  void wait(std::size_t worker, TimedEvent& event) {
    clocks_[worker].next_waiting = event.waiting;
    event.waiting = static_cast<int>(worker);
  }
  void happen(TimedEvent& event, double time) {
    event.time = time;
    for (int waiting = event.waiting; waiting != TimedEvent::kNobody;) {
      const auto worker = static_cast<std::size_t>(waiting);
      call_at(worker, std::max(clocks_[worker].now, time));
      waiting = clocks_[worker].next_waiting;
    }
    event.waiting = TimedEvent::kNobody;
  }

 private:
  struct Clock {
    double now = 0.0;
    int next_waiting = TimedEvent::kNobody;  // for the same event
  };
  struct Ready {
    double time = 0.0;
    std::size_t worker = 0;
  };
  static bool comes_after(const Ready& a, const Ready& b) {
    return a.time > b.time || (a.time == b.time && a.worker > b.worker);
  }

  Order order_;
  std::vector<Clock> clocks_;
  std::vector<Ready> ready_;  // kByTime: a heap, the earliest on top
};

}  // namespace phalanx
