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
  EXPECT_EQ(near.add_sent(text("one")), 1U);
  EXPECT_EQ(near.add_sent(text("two")), 2U);
  EXPECT_EQ(near.add_sent(text("three")), 3U);
  EXPECT_TRUE(far.accept(1));
  near.confirm(far.last_received());
  // The connection ends: message two had come, but was not confirmed.
  EXPECT_TRUE(far.accept(2));
  ASSERT_EQ(near.unconfirmed().size(), 2U);
  EXPECT_EQ(*near.unconfirmed()[0].bytes, "two");
  EXPECT_FALSE(far.accept(near.unconfirmed()[0].number));
  EXPECT_TRUE(far.accept(near.unconfirmed()[1].number));
  near.confirm(far.last_received());
  EXPECT_TRUE(near.unconfirmed().empty());
  EXPECT_TRUE(near.is_whole());
}

TEST(Session, WhatCannotBeIsRefused) {
  Session session;
  session.add_sent(text("one"));
  EXPECT_THROW(session.confirm(2), UnavailableError);
  EXPECT_THROW(session.accept(2), UnavailableError);
  // Confirmed twice, or late.
  session.confirm(1);
  session.confirm(0);
  EXPECT_TRUE(session.unconfirmed().empty());
}

TEST(Session, WhatIsKeptIsBounded) {
  Session session;
  for (std::size_t i = 0; i < Session::kMostUnconfirmed; ++i) session.add_sent(text("x"));
  EXPECT_TRUE(session.is_whole());
  session.add_sent(text("x"));
  EXPECT_FALSE(session.is_whole());
  EXPECT_EQ(session.unconfirmed().size(), Session::kMostUnconfirmed);
}

// Messages are lost and connections end at random: each message comes once, in order.
TEST(Session, EachMessageComesOnceInOrder) {
  std::mt19937 random(7);
  for (int run = 0; run < 200; ++run) {
    Session near;
    Session far;
    std::vector<std::string> came;
    std::deque<Session::SentMessage> on_the_way;
    int said = 0;
    while (said < 50 || !near.unconfirmed().empty()) {
      switch (random() % 4) {
        case 0:
          if (said < 50) {
            const Session::Bytes bytes = text(std::to_string(said++));
            on_the_way.push_back({near.add_sent(bytes), bytes});
          }
          break;
        case 1:
          if (on_the_way.empty()) break;
          if (far.accept(on_the_way.front().number)) came.push_back(*on_the_way.front().bytes);
          on_the_way.pop_front();
          break;
        case 2:
          near.confirm(far.last_received());
          break;
        default:
          if (random() % 8 != 0) break;
          // The connection ends, and data under way is lost.
          near.confirm(far.last_received());
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
