#include "phalanx/rendezvous/message.h"

#include <gtest/gtest.h>

#include <random>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/wire.h"

namespace phalanx::rendezvous {
namespace {

template <typename Type>
Type through(const Type& message) {
  return std::get<Type>(decode(encode(message)));
}

std::string with_header(const std::string& header, const std::string& rest = "") {
  std::string bytes;
  append_number(bytes, header.size(), 4);
  return bytes + header + rest;
}

TEST(ControlMessage, ComesBackAsItWas) {
  const JoinRequest join = through(JoinRequest{8, 1, 2, 4, 4711, "n02", "boot/1"});
  EXPECT_EQ(join.world_size, 8);
  EXPECT_EQ(join.node, 1);
  EXPECT_EQ(join.local_rank, 2);
  EXPECT_EQ(join.local_size, 4);
  EXPECT_EQ(join.pid, 4711);
  EXPECT_EQ(join.host_name, "n02");
  EXPECT_EQ(join.machine, "boot/1");

  const std::string any{"\0\xff{}\"", 5};
  const RoundPart part = through(RoundPart{7, RoundKind::kBroadcast, any});
  EXPECT_EQ(part.round, 7);
  EXPECT_EQ(part.kind, RoundKind::kBroadcast);
  EXPECT_EQ(part.text, any);
  const RoundResult result =
      through(RoundResult{7, RoundKind::kBroadcast, {{0, 1, ""}, {3, 2, any}, {5, 1, "third"}}});
  EXPECT_EQ(result.round, 7);
  EXPECT_EQ(result.kind, RoundKind::kBroadcast);
  ASSERT_EQ(result.runs.size(), 3U);
  EXPECT_EQ(result.runs[1].first, 3);
  EXPECT_EQ(result.runs[1].count, 2);
  EXPECT_EQ(result.runs[1].text, any);
  EXPECT_EQ(result.runs[2].text, "third");
  const MailPart mail_part = through(MailPart{"address/3", 77, any});
  EXPECT_EQ(mail_part.name, "address/3");
  EXPECT_EQ(mail_part.total, 77U);
  EXPECT_EQ(mail_part.text, any);
  const MailRequest request = through(MailRequest{"address/3", true});
  EXPECT_EQ(request.name, "address/3");
  EXPECT_TRUE(request.take);
  const Mail mail = through(Mail{"address/3", Mail::Kind::kTaken, any});
  EXPECT_EQ(mail.name, "address/3");
  EXPECT_EQ(mail.kind, Mail::Kind::kTaken);
  EXPECT_EQ(mail.text, any);

  Heartbeat heartbeat;
  heartbeat.ticks = 12;
  heartbeat.iteration = 3;
  heartbeat.step_seconds = 1.5;
  heartbeat.waited_seconds = 0.25;
  heartbeat.steps = 2;
  heartbeat.busy = "saving";
  heartbeat.busy_progress = "3 MB";
  heartbeat.access = "writing /a";
  heartbeat.silence_limit = 3;
  heartbeat.still_limit = 0.5;
  heartbeat.wait = Heartbeat::Wait{{2, "tp", "all_reduce", 12}, {0, 3}, 0.5};
  const Heartbeat beat = through(heartbeat);
  EXPECT_EQ(beat.ticks, 12U);
  EXPECT_EQ(beat.iteration, 3);
  EXPECT_EQ(beat.step_seconds, 1.5);
  EXPECT_EQ(beat.waited_seconds, 0.25);
  EXPECT_EQ(beat.steps, 2);
  EXPECT_EQ(beat.busy, "saving");
  EXPECT_EQ(beat.busy_progress, "3 MB");
  EXPECT_EQ(beat.access, "writing /a");
  EXPECT_EQ(beat.silence_limit, 3);
  EXPECT_EQ(beat.still_limit, 0.5);
  EXPECT_FALSE(through(Heartbeat{}).still_limit);
  ASSERT_TRUE(beat.wait);
  EXPECT_EQ(beat.wait->place.operation, "all_reduce");
  EXPECT_EQ(beat.wait->place.number, 12);
  EXPECT_EQ(beat.wait->missing, (std::vector<int>{0, 3}));
  EXPECT_TRUE(beat.wait->lists_all());
  heartbeat.wait->missing.assign(100, 7);
  EXPECT_EQ(through(heartbeat).wait.value_or(Heartbeat::Wait{}).missing.size(),
            Heartbeat::kMostMissing);
  EXPECT_EQ(through(heartbeat).wait.value_or(Heartbeat::Wait{}).missing_count, 100);
  EXPECT_FALSE(through(Heartbeat{}).wait);

  const Refusal refusal = through(Refusal{ErrorCode::kUnavailable, true, "later"});
  EXPECT_EQ(refusal.code, ErrorCode::kUnavailable);
  EXPECT_TRUE(refusal.later);
  const Welcome welcome =
      through(Welcome{"rank 0", 0, PlaceList({{0, 2, 0, 0, 1, "a"}, {1, 2, 1, 0, 1, "b"}})});
  EXPECT_EQ(welcome.coordinator, "rank 0");
  EXPECT_EQ(welcome.places.places()[1].host, 1);
  EXPECT_EQ(welcome.places.places()[1].rank, 1);
  EXPECT_EQ(welcome.places.places()[1].host_name, "b");
  EXPECT_EQ(through(Ping{"1/2", "rank 0"}).busy, "rank 0");
  const Failed failed = through(Failed{{3, ErrorCode::kHang, "why"}, false});
  EXPECT_EQ(failed.failure.rank, 3);
  EXPECT_EQ(failed.failure.code, ErrorCode::kHang);
  EXPECT_FALSE(failed.of_own_group);
  EXPECT_EQ(through(Failing{"why"}).reason, "why");
}

TEST(ControlMessage, OfBytesThatAreNoTextIsReadable) {
  EXPECT_EQ(through(Failing{"disk \xff full"}).reason, "disk \xef\xbf\xbd full");
  EXPECT_EQ(through(Failing{std::string(100000, '\xff')}).reason.size(), 3U * 4096U);
  Heartbeat heartbeat;
  heartbeat.busy = "saving \xff";
  heartbeat.access = std::string(100000, '\xff');
  EXPECT_EQ(through(heartbeat).busy, "saving \xef\xbf\xbd");
  EXPECT_EQ(through(heartbeat).access.size(), 3U * 4096U);
}

TEST(ControlMessage, ThatIsNoneIsRefused) {
  for (const std::string& bytes :
       {std::string(),
        std::string("abc"),
        with_header(""),
        with_header("[]"),
        with_header("{}"),
        with_header(R"({"type": 3})"),
        with_header(R"({"type": "no such"})"),
        with_header(R"({"type": "failing"})"),
        with_header(R"({"type": "failing", "reason": 1})"),
        with_header(R"({"type": "part", "round": -1, "kind": 0})"),
        with_header(R"({"type": "part", "round": 1, "kind": 7})"),
        with_header(R"({"type": "part", "round": 18446744073709551615, "kind": 0})"),
        with_header(R"({"type": "part", "round": 0, "kind": 0})", std::string(16385, 'x')),
        with_header(R"({"type": "result", "round": 0, "kind": 0, "runs": [[0, 1, 5]]})", "four"),
        with_header(R"({"type": "result", "round": 0, "kind": 0, "runs": [[0, 1, 3]]})", "four"),
        with_header(R"({"type": "result", "round": 0, "kind": 0, "runs": [[1, 1, 2], [0, 1, 2]]})",
                    "four"),
        with_header(R"({"type": "welcome", "coordinator": "", "hosted_by": 0})", "{}"),
        std::string(60, '\0'),
        encode(Heartbeat{}).substr(0, 40),
        encode(Heartbeat{}) + "x",
        with_header(R"({"type": "refusal", "code": 3, "later": false, "text": ""})"),
        with_header(R"({"type": "post", "name": "a", "total": 67108865})"),
        with_header(R"({"type": "post", "name": "", "total": 1})", "x"),
        with_header(R"({"type": "post", "name": "a", "total": 1})",
                    std::string(kLongestMailPart + 1, 'x')),
        with_header(R"({"type": "read", "name": "a", "take": 1})"),
        with_header(R"({"type": "mail", "name": "a", "kind": 5})"),
        with_header(std::string(100000, '[')),
        std::string("\xff\xff\xff\xff{}", 6)}) {
    EXPECT_THROW(decode(bytes), UnavailableError) << bytes.substr(0, 80);
  }
}

TEST(ControlMessage, AnyChangeIsReadOrRefused) {
  // NOLINTNEXTLINE(bugprone-random-generator-seed,cert-msc51-cpp): the same each time.
  std::mt19937 random(1);
  Heartbeat heartbeat;
  heartbeat.wait = Heartbeat::Wait{{2, "tp", "all_reduce", 12}, {0, 3}, 0.5};
  const std::vector<std::string> seeds = {
      encode(heartbeat), encode(JoinRequest{8, 1, 2, 4, 4711, "n02", "boot/1"}),
      encode(RoundResult{1, {}, {{0, 2, "one"}, {2, 1, "two"}}}),
      encode(Welcome{"rank 0", 0, PlaceList({{0, 1, 0, 0, 1, "a"}})})};
  int read = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string bytes = seeds[static_cast<std::size_t>(round) % seeds.size()];
    for (std::uint32_t change = 0; change <= random() % 3; ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      decode(bytes);
      ++read;
    } catch (const UnavailableError&) {
    }
  }
  EXPECT_LT(read, 10000);
}

}  // namespace
}  // namespace phalanx::rendezvous
