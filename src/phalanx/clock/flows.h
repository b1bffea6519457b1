#pragma once
// What moves in simulated time: messages, and transfers to and from files. Each waits in queues,
// and those that move share links.
//
// A flow has members, the ranks that take part. It starts when all of them have begun it and it is
// the first in the queue of each. Its latency passes, then it moves over its links. What moves over
// a link at the same time has equal shares of its rate; what has several links has the least of its
// shares, and what it leaves of the others' nobody gets.

#include <cstddef>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <vector>

#include "phalanx/pipeline/timekeeper.h"

namespace phalanx {

class Flows;

struct Flow {
  // What it takes with its links to itself, and the part of that before it moves over them.
  double seconds = 0.0;
  double latency = 0.0;
  std::vector<int> links = {};
  std::size_t missing = 1;  // members that have not begun it, or have others before it
  // Who has begun it last, and when.
  int last_member = 0;
  double last_begin = 0.0;
  TimedEvent done = {};

 private:
  friend class Flows;
  std::vector<std::queue<std::shared_ptr<Flow>>*> queues_ = {};  // that it is in
  bool moves_ = false;
  double left_ = 0.0;   // seconds, of its own, of what has not moved
  double since_ = 0.0;  // when that was so
  double share_ = 0.0;  // of a rate
  double next_ = 0.0;   // when its latency or its move ends
};
using FlowPtr = std::shared_ptr<Flow>;

class Flows {
 public:
  using Queue = std::tuple<int, int, int>;  // any name

  // `worker` is that of the timekeeper which goes on with flows.
  Flows(Timekeeper& timekeeper, std::size_t worker, std::size_t links)
      : timekeeper_(timekeeper), worker_(worker), moving_(links), last_done_(links) {}

  // A member begins the flow, behind what it has begun in the same queue.
  void begin(int member, const Queue& queue, const FlowPtr& flow);
  // What has no queue and waits for nobody.
  void start(const FlowPtr& flow, double time);

  // When the last flow over the link was done; 0: there was none.
  double last_done(std::size_t link) const { return last_done_[link]; }

  // The worker is called.
  void go_on(double time);

 private:
  using Moving = std::vector<FlowPtr>;
  struct Due {
    double time = 0.0;
    FlowPtr flow;
    friend bool operator<(const Due& a, const Due& b) { return a.time > b.time; }
  };

  void call_at(const FlowPtr& flow, double time);
  void move(const FlowPtr& flow, double time);
  void finish(const FlowPtr& flow, double time);
  void share(const std::vector<int>& links, double time);

  Timekeeper& timekeeper_;
  std::size_t worker_;
  std::map<Queue, std::queue<FlowPtr>> queues_;
  std::vector<Moving> moving_;     // by link
  std::vector<double> last_done_;  // by link
  std::priority_queue<Due> due_;
};

}  // namespace phalanx
