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
    timekeeper.run([&](std::size_t worker) {
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
  timekeeper.run([&](std::size_t worker) {
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
  timekeeper.run([&](std::size_t worker) {
    if (worker == 2) {
      // The worker whose event is later was ready before.
      timekeeper.happen(events[0], 9.0);
      timekeeper.happen(events[1], 4.0);
      return;
    }
    if (!events[worker].has_happened()) {
      timekeeper.now(worker) = 5.0;
      return timekeeper.wait(worker, events[worker]);
    }
    calls.emplace_back(worker, timekeeper.now(worker));
  });
  // A clock does not go back.
  EXPECT_THAT(calls, ElementsAre(std::pair(1, 5.0), std::pair(0, 5.0)));
}

}  // namespace
}  // namespace phalanx
