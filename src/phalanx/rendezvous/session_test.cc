#include "phalanx/rendezvous/session.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

Session::Bytes text(const std::string& what) { return std::make_shared<const std::string>(what); }

TEST(Session, SaysAgainWhatWasNotConfirmed) {
  Session near;
  Session far;
  EXPECT_EQ(near.say(text("one")), 1U);
  EXPECT_EQ(near.say(text("two")), 2U);
  EXPECT_EQ(near.say(text("three")), 3U);
  EXPECT_TRUE(far.hear(1));
  near.confirm(far.heard());
  // The connection ends: two had come, and was not confirmed.
  EXPECT_TRUE(far.hear(2));
  ASSERT_EQ(near.unconfirmed().size(), 2U);
  EXPECT_EQ(*near.unconfirmed()[0].bytes, "two");
  EXPECT_FALSE(far.hear(near.unconfirmed()[0].number));
  EXPECT_TRUE(far.hear(near.unconfirmed()[1].number));
  near.confirm(far.heard());
  EXPECT_TRUE(near.unconfirmed().empty());
  EXPECT_TRUE(near.is_whole());
}

TEST(Session, WhatCannotBeIsRefused) {
  Session session;
  session.say(text("one"));
  EXPECT_THROW(session.confirm(2), UnavailableError);
  EXPECT_THROW(session.hear(2), UnavailableError);
  // Confirmed twice, or late.
  session.confirm(1);
  session.confirm(0);
  EXPECT_TRUE(session.unconfirmed().empty());
}

TEST(Session, WhatIsKeptIsBounded) {
  Session session;
  for (std::size_t i = 0; i < Session::kMostUnconfirmed; ++i) session.say(text("x"));
  EXPECT_TRUE(session.is_whole());
  session.say(text("x"));
  EXPECT_FALSE(session.is_whole());
  EXPECT_EQ(session.unconfirmed().size(), Session::kMostUnconfirmed);
}

// Whatever is lost on the way, and whenever connections end: each message comes once, in order.
TEST(Session, EachMessageComesOnceInOrder) {
  std::mt19937 random(7);
  for (int run = 0; run < 200; ++run) {
    Session near;
    Session far;
    std::vector<std::string> came;
    std::deque<Session::Said> on_the_way;
    int said = 0;
    while (said < 50 || !near.unconfirmed().empty()) {
      switch (random() % 4) {
        case 0:
          if (said < 50) {
            const Session::Bytes bytes = text(std::to_string(said++));
            on_the_way.push_back({near.say(bytes), bytes});
          }
          break;
        case 1:
          if (on_the_way.empty()) break;
          if (far.hear(on_the_way.front().number)) came.push_back(*on_the_way.front().bytes);
          on_the_way.pop_front();
          break;
        case 2:
          near.confirm(far.heard());
          break;
        default:
          if (random() % 8 != 0) break;
          // The connection ends, and with it what was on the way.
          near.confirm(far.heard());
          on_the_way = near.unconfirmed();
          break;
      }
    }
    ASSERT_EQ(came.size(), 50U);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(came[static_cast<std::size_t>(i)], std::to_string(i));
  }
}

}  // namespace
}  // namespace phalanx::rendezvous
