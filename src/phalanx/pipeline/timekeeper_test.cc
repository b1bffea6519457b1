#include "phalanx/pipeline/timekeeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace phalanx {
namespace {

using testing::ElementsAre;

// What each call of a worker says: the worker and its clock.
using Calls = std::vector<std::pair<std::size_t, double>>;

TEST(Timekeeper, AWorkerIsCalledAgainWhenItsEventHasHappened) {
  for (const auto order : {Timekeeper::Order::kAny, Timekeeper::Order::kByTime}) {
    Timekeeper timekeeper(3, order);
    TimedEvent event;
    std::vector<int> calls(3, 0);
    timekeeper.run([&](std::size_t worker, double /*time*/) {
      ++calls[worker];
      if (worker == 2) {
        timekeeper.happen(event, 5.0);
      } else if (!event.has_happened()) {
        timekeeper.wait(worker, event);
      }
    });
    EXPECT_THAT(calls, ElementsAre(2, 2, 1));
    EXPECT_EQ(event.time, 5.0);
  }
}

TEST(Timekeeper, WhatNeverHappensIsWaitedForForEver) {
  Timekeeper timekeeper(2);
  TimedEvent event;
  int calls = 0;
  timekeeper.run([&](std::size_t worker, double /*time*/) {
    ++calls;
    timekeeper.wait(worker, event);
  });
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(event.has_happened());
}

TEST(Timekeeper, TheEarliestGoesOnFirst) {
  Timekeeper timekeeper(3, Timekeeper::Order::kByTime);
  std::vector<TimedEvent> events(2);
  Calls calls;
  timekeeper.run([&](std::size_t worker, double time) {
    calls.emplace_back(worker, time);
    if (worker == 2) {
      timekeeper.happen(events[0], 9.0);
      timekeeper.happen(events[1], 4.0);
    } else if (!events[worker].has_happened()) {
      timekeeper.now(worker) = 5.0;
      timekeeper.wait(worker, events[worker]);
    }
  });
  // A clock does not go back: nobody is called before its own.
  EXPECT_THAT(calls, ElementsAre(std::pair(0, 0.0), std::pair(1, 0.0), std::pair(2, 0.0),
                                 std::pair(1, 5.0), std::pair(0, 9.0)));
}

TEST(Timekeeper, AWorkerIsCalledWhenItAskedFor) {
  Timekeeper timekeeper(2, Timekeeper::Order::kByTime);
  Calls calls;
  timekeeper.run([&](std::size_t worker, double time) {
    calls.emplace_back(worker, time);
    if (time == 0.0) timekeeper.call_at(worker, worker == 0 ? 3.0 : 2.0);
  });
  EXPECT_THAT(calls, ElementsAre(std::pair(0, 0.0), std::pair(1, 0.0), std::pair(1, 2.0),
                                 std::pair(0, 3.0)));
}

}  // namespace
}  // namespace phalanx
