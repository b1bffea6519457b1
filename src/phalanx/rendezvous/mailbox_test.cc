// The mailbox of a run: over control connections, and in one process.

#include "phalanx/rendezvous/mailbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <stop_token>
#include <thread>

#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/rendezvous/mail_store.h"
#include "phalanx/rendezvous/member_mail.h"
#include "phalanx/rendezvous/rendezvous_test_support.h"

namespace phalanx::rendezvous {
namespace {

using std::chrono::milliseconds;

// A text of several parts, each byte of which depends on its place.
std::string long_text(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t at = 0; at < bytes; ++at) text[at] = static_cast<char>((at * at) >> 7);
  return text;
}

// What every mailbox does; `other` is the box of another member.
void expect_post_office(Mailbox& box, Mailbox& other) {
  EXPECT_EQ(other.take("a"), std::nullopt);
  box.post("a", "text of a");
  EXPECT_EQ(other.read("a"), "text of a");
  EXPECT_EQ(box.read("a"), "text of a");
  EXPECT_EQ(error_of([&] { other.post("a", "another"); }),
            std::pair(69, std::string("there is a text 'a' already")));
  EXPECT_EQ(other.take("a"), "text of a");
  EXPECT_EQ(other.take("a"), std::nullopt);
  box.post("empty", "");
  EXPECT_EQ(other.read("empty"), "");

  // A reader that waits, on another thread than the one that goes on to post.
  std::future<std::string> early =
      std::async(std::launch::async, [&] { return other.read("late"); });
  EXPECT_EQ(early.wait_for(milliseconds(20)), std::future_status::timeout);
  const std::string text = long_text((std::size_t{3} << 20) + 5);
  box.post("late", text);
  EXPECT_TRUE(early.get() == text);

  // A reader that gives up; what comes later is there for others.
  std::stop_source stop;
  std::future<std::optional<std::string>> gives_up =
      std::async(std::launch::async, [&] { return other.read_unless(stop.get_token(), "later"); });
  EXPECT_EQ(gives_up.wait_for(milliseconds(20)), std::future_status::timeout);
  stop.request_stop();
  EXPECT_EQ(gives_up.get(), std::nullopt);
  box.post("later", "it has come");
  EXPECT_EQ(other.read("later"), "it has come");
  EXPECT_EQ(other.read_unless(std::stop_token(), "later"), "it has come");
  EXPECT_EQ(box.take("later"), "it has come");

  EXPECT_EQ(error_of([&] { box.post("long", std::string(kLongestMail + 1, 'x')); }).first, 70);
  for (const char* name : {"", "two words", "\xc3\xa4"}) {
    EXPECT_EQ(error_of([&] { box.read(name); }).first, 70) << name;
  }
  EXPECT_EQ(error_of([&] { box.take(std::string(kLongestMailName + 1, 'x')); }).first, 70);
}

TEST(LocalMailbox, KeepsTextsForAllThreads) {
  LocalMailbox box;
  expect_post_office(box, box);
}

TEST(LocalMailbox, AFailureEndsEveryWait) {
  LocalMailbox box;
  std::future<std::string> waits =
      std::async(std::launch::async, [&] { return box.read("never"); });
  EXPECT_EQ(waits.wait_for(milliseconds(10)), std::future_status::timeout);
  box.fail(Error(ErrorCode::kTemporary, "rank 3 is gone"));
  box.fail(Error(ErrorCode::kHang, "a later one"));
  const auto gone = std::pair(75, std::string("rank 3 is gone"));
  EXPECT_EQ(error_of([&] { waits.get(); }), gone);
  EXPECT_EQ(error_of([&] { box.post("a", "b"); }), gone);
  EXPECT_EQ(error_of([&] { box.take("a"); }), gone);
}

TEST(Mailbox, KeepsTextsForAllMembers) {
  const CoordinatorOptions options = coordinator_options(tcp_endpoint("127.0.0.1"), 2);
  const Coordinator coordinator(options);
  auto members = join_all(coordinator, options);
  expect_post_office(*members[1], *members[0]);
  leave_all(members);
}

TEST(Mailbox, ManyThreadsPostAndRead) {
  constexpr int kTexts = 40;
  const CoordinatorOptions options = coordinator_options(unix_endpoint(), 4);
  const Coordinator coordinator(options);
  auto members = join_all(coordinator, options);
  run_all(8, [&](int thread) {
    Mailbox& box = *members[static_cast<std::size_t>(thread % 4)];
    for (int text = 0; text < kTexts; ++text) {
      if (thread < 4) box.post(fmt::format("{}/{}", thread, text), std::to_string(text * thread));
      for (int of = 0; thread >= 4 && of < 4; ++of) {
        EXPECT_EQ(box.read(fmt::format("{}/{}", of, text)), std::to_string(text * of));
      }
    }
  });
  leave_all(members);
}

TEST(Mailbox, AFailedRankEndsEveryWait) {
  const CoordinatorOptions options = coordinator_options(unix_endpoint(), 3);
  const Coordinator coordinator(options);
  auto members = join_all(coordinator, options);
  std::future<std::string> waits =
      std::async(std::launch::async, [&] { return members[0]->read("address/2"); });
  members[1]->post("here", "yes");
  members[2]->fail("it has had enough");
  const auto [code, text] = error_of([&] { waits.get(); });
  EXPECT_EQ(code, 75);
  EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
  EXPECT_NE(text.find("it has had enough"), std::string::npos) << text;
  EXPECT_TRUE(eventually([&] { return members[1]->failure().has_value(); }));
  EXPECT_EQ(error_of([&] { members[1]->read("here"); }).first, 75);
  members[1]->leave();
}

TEST(Mailbox, WhoHasLeftNeitherReadsNorPosts) {
  const CoordinatorOptions options = coordinator_options(unix_endpoint(), 1);
  const Coordinator coordinator(options);
  auto members = join_all(coordinator, options);
  std::future<std::string> waits =
      std::async(std::launch::async, [&] { return members[0]->read("never"); });
  members[0]->leave();
  EXPECT_EQ(error_of([&] { waits.get(); }),
            std::pair(69, std::string("the rank has left the run")));
}

// ---- without a socket

std::vector<std::pair<int, Mail>> decoded(const std::vector<MailStore::Answer>& answers) {
  std::vector<std::pair<int, Mail>> mails;
  for (const MailStore::Answer& answer : answers) {
    mails.emplace_back(answer.number, std::get<Mail>(decode(*answer.bytes)));
  }
  return mails;
}

TEST(MailStore, ReadersOfATextShareItsBytes) {
  MailStore store;
  for (const int reader : {5, 7}) EXPECT_TRUE(store.on_request(reader, {"a", false}).empty());
  EXPECT_TRUE(store.on_part(1, {"a", 4, "te"}).empty());
  const auto answers = store.on_part(1, {"a", 4, "xt"});
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[1].bytes, answers[2].bytes);
  EXPECT_EQ(store.on_request(9, {"a", false}).front().bytes, answers[1].bytes);
  const auto mails = decoded(answers);
  EXPECT_EQ(mails[0].first, 1);
  EXPECT_EQ(mails[0].second.kind, Mail::Kind::kKept);
  EXPECT_EQ(mails[2].first, 7);
  EXPECT_EQ(mails[2].second.kind, Mail::Kind::kRead);
  EXPECT_EQ(mails[2].second.text, "text");
}

TEST(MailStore, KeepsNoMoreThanItsLimit) {
  MailStore store(10);
  EXPECT_EQ(decoded(store.on_part(0, {"a", 6, "123456"}))[0].second.kind, Mail::Kind::kKept);
  EXPECT_TRUE(store.on_part(1, {"b", 5, "12"}).empty());
  const Mail refused = decoded(store.on_part(1, {"b", 5, "345"}))[0].second;
  EXPECT_EQ(refused.kind, Mail::Kind::kRefused);
  EXPECT_EQ(refused.text, "no room for the text 'b': 6 bytes of texts wait to be taken");
  EXPECT_EQ(decoded(store.on_request(1, {"a", true}))[0].second.text, "123456");
  EXPECT_EQ(store.bytes(), 0U);
  EXPECT_EQ(decoded(store.on_part(1, {"b", 5, "12345"}))[0].second.kind, Mail::Kind::kKept);
}

TEST(MailStore, OfTwoThatPostOneNameTheFirstWins) {
  MailStore store;
  store.on_part(0, {"a", 4, "ze"});
  store.on_part(1, {"a", 3, "on"});
  EXPECT_EQ(decoded(store.on_part(1, {"a", 3, "e"}))[0].second.kind, Mail::Kind::kKept);
  const auto second = decoded(store.on_part(0, {"a", 4, "ro"}));
  EXPECT_EQ(second[0].first, 0);
  EXPECT_EQ(second[0].second.kind, Mail::Kind::kRefused);
  EXPECT_EQ(decoded(store.on_request(2, {"a", true}))[0].second.text, "one");
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(MailStore, RefusesPartsThatDoNotBelongTogether) {
  MailStore store;
  store.on_part(0, {"a", 4, "ze"});
  EXPECT_THROW(store.on_part(0, {"a", 5, "r"}), UnavailableError);
  EXPECT_THROW(store.on_part(1, {"b", 2, "too"}), UnavailableError);
  EXPECT_THROW(store.on_part(2, {"c", 2, ""}), UnavailableError);
}

TEST(MemberMail, RefusesAnswersThatNobodyAskedFor) {
  MemberMail mail([](const ControlMessage&) {});
  EXPECT_THROW(mail.on_answer({"a", Mail::Kind::kRead, "text"}), UnavailableError);
}

}  // namespace
}  // namespace phalanx::rendezvous
