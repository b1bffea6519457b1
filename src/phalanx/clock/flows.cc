#include "phalanx/clock/flows.h"

#include <algorithm>

namespace phalanx {

void Flows::begin(int member, const Queue& queue, const FlowPtr& flow) {
  const double now = timekeeper_.now(static_cast<std::size_t>(member));
  if (now >= flow->last_begin) {
    flow->last_member = member;
    flow->last_begin = now;
  }
  std::queue<FlowPtr>& before = queues_[queue];
  before.push(flow);
  flow->queues_.push_back(&before);
  if (before.size() == 1 && --flow->missing == 0) start(flow, now);
}

void Flows::start(const FlowPtr& flow, double time) {
  flow->left_ = flow->seconds - flow->latency;
  // Members go on by themselves: one that is called later may have begun earlier.
  call_at(flow, std::max(time, flow->last_begin) + flow->latency);
}

void Flows::call_at(const FlowPtr& flow, double time) {
  flow->next_ = time;
  due_.push({time, flow});
  timekeeper_.call_at(worker_, time);
}

void Flows::go_on(double time) {
  while (!due_.empty() && due_.top().time <= time) {
    const Due due = due_.top();
    due_.pop();
    // Its share has changed, and with it its end.
    if (due.time != due.flow->next_ || due.flow->done.has_happened()) continue;
    if (due.flow->moves_) {
      finish(due.flow, due.time);
    } else {
      move(due.flow, due.time);
    }
  }
}

void Flows::move(const FlowPtr& flow, double time) {
  flow->moves_ = true;
  flow->since_ = time;
  if (flow->links.empty()) return call_at(flow, time + flow->left_);
  for (const int link : flow->links) moving_[static_cast<std::size_t>(link)].push_back(flow);
  share(flow->links, time);
}

void Flows::finish(const FlowPtr& flow, double time) {
  for (const int link : flow->links) {
    std::erase(moving_[static_cast<std::size_t>(link)], flow);
    last_done_[static_cast<std::size_t>(link)] = time;
  }
  share(flow->links, time);
  timekeeper_.happen(flow->done, time);
  for (std::queue<FlowPtr>* queue : flow->queues_) {
    queue->pop();
    if (!queue->empty() && --queue->front()->missing == 0) start(queue->front(), time);
  }
}

// Of these links others move now than before.
void Flows::share(const std::vector<int>& links, double time) {
  for (const int link : links) {
    for (const FlowPtr& flow : moving_[static_cast<std::size_t>(link)]) {
      std::size_t most = 1;
      for (const int used : flow->links) {
        most = std::max(most, moving_[static_cast<std::size_t>(used)].size());
      }
      const double share = 1.0 / static_cast<double>(most);
      if (share == flow->share_) continue;
      flow->left_ -= (time - flow->since_) * flow->share_;
      flow->since_ = time;
      flow->share_ = share;
      call_at(flow, time + flow->left_ / share);
    }
  }
}

}  // namespace phalanx
