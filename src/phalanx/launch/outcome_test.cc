#include "phalanx/launch/outcome.h"

#include <gtest/gtest.h>

#include <vector>

namespace phalanx::launch {
namespace {

RankEnd exited(int rank, int code, double seconds) {
  return {.rank = rank, .host = "n0", .exit_code = code, .after_seconds = seconds, .message = {}};
}
RankEnd killed(int rank, int signal, double seconds, bool by_launcher = false) {
  return {.rank = rank,
          .host = "n1",
          .signal = signal,
          .by_launcher = by_launcher,
          .after_seconds = seconds,
          .message = {}};
}

Outcome outcome(std::vector<RankEnd> failures, std::optional<RankVerdict> verdict = {}) {
  const NodeReport report{.node = 0,
                          .failed = static_cast<int>(failures.size()),
                          .failures = std::move(failures),
                          .verdict = std::move(verdict)};
  return outcome_of(std::vector{report});
}

TEST(Outcome, IsZeroWhereAllFinished) {
  EXPECT_EQ(
      outcome_of(std::vector{NodeReport{.finished = 4, .failures = {}, .verdict = {}}}).exit_status,
      0);
}

TEST(Outcome, IsPreemptedWhereAllSavedAndNoneFailed) {
  const NodeReport saved{
      .finished = 1, .preempted = 3, .was_asked_to_stop = true, .failures = {}, .verdict = {}};
  EXPECT_EQ(outcome_of(std::vector{saved}).exit_status, 85);
  NodeReport failed = saved;
  failed.failed = 1;
  failed.failures = {exited(1, 74, 2.0)};
  EXPECT_EQ(outcome_of(std::vector{saved, failed}).exit_status, 74);
}

TEST(Outcome, TheFirstCauseOfItsOwnCounts) {
  const Outcome found = outcome(
      {exited(0, 75, 0.9), exited(1, 70, 1.1), killed(2, 11, 1.0), killed(3, 15, 2.0, true)});
  EXPECT_EQ(found.culprit->rank, 2);
  EXPECT_EQ(found.culprit->reason, "signal 11");
  EXPECT_EQ(found.culprit->text, "rank 2 (host n1) was killed by SIGSEGV");
  EXPECT_EQ(found.exit_status, 75);
}

TEST(Outcome, OfNothingButBlameTheFirstIsTaken) {
  const Outcome found = outcome({exited(3, 75, 2.0), exited(1, 69, 1.0)});
  EXPECT_EQ(found.culprit->rank, 1);
  EXPECT_EQ(found.exit_status, 69);
}

TEST(Outcome, AVerdictIsToldByHowItsRankEnded) {
  const RankVerdict lost{.rank = 2, .reason = "rank 2 is gone", .after_seconds = 1.0};
  Outcome found = outcome({exited(0, 75, 1.1), killed(2, 9, 1.0)}, lost);
  EXPECT_EQ(found.culprit->rank, 2);
  EXPECT_EQ(found.culprit->reason, "signal 9");
  EXPECT_EQ(found.exit_status, 75);
  // Its host was cut off: it ends as the others do.
  found = outcome({exited(0, 75, 1.1), exited(2, 75, 4.0)}, lost);
  EXPECT_EQ(found.culprit->rank, 2);
  EXPECT_EQ(found.culprit->reason, "lost");
  EXPECT_EQ(found.culprit->message, "rank 2 is gone");
  EXPECT_EQ(found.exit_status, 75);
}

TEST(Outcome, AHangIsEndedByTheLauncher) {
  const RankVerdict hang{
      .rank = 1, .code = ErrorCode::kHang, .reason = "rank 1 hangs", .after_seconds = 9};
  const Outcome found = outcome({exited(0, 75, 9.2), killed(1, 9, 10.1, true)}, hang);
  EXPECT_EQ(found.culprit->rank, 1);
  EXPECT_EQ(found.culprit->reason, "hang");
  EXPECT_EQ(found.exit_status, 124);
}

// A rank that sees the end of its neighbour's connection may be the first to report an error.
TEST(Outcome, AVerdictOverARankThatOnlyBlamesGivesWayToTheCause) {
  const RankVerdict blamed{.rank = 1, .reason = "rank 1: send to 0 failed", .after_seconds = 1.0};
  const Outcome found = outcome({exited(1, 75, 1.05), killed(0, 9, 1.01)}, blamed);
  EXPECT_EQ(found.culprit->rank, 0);
  EXPECT_EQ(found.culprit->reason, "signal 9");
}

TEST(Outcome, WhatFailsOnTheWayOutIsNoCause) {
  const RankVerdict hang{
      .rank = 1, .code = ErrorCode::kHang, .reason = "rank 1 hangs", .after_seconds = 9};
  const Outcome found = outcome({killed(0, 11, 9.6), killed(1, 9, 10.1, true)}, hang);
  EXPECT_EQ(found.culprit->rank, 1);
  EXPECT_EQ(found.exit_status, 124);
}

TEST(Outcome, AHangInAFileIsThatOfOneRank) {
  const RankVerdict hang{
      .rank = 0, .code = ErrorCode::kIo, .reason = "rank 0 hangs: writing /a", .after_seconds = 9};
  for (const RankEnd& end : {killed(0, 9, 10.1, true), exited(0, 74, 19.0)}) {
    const Outcome found = outcome({exited(1, 74, 9.05), end}, hang);
    EXPECT_EQ(found.exit_status, 74);
    EXPECT_EQ(found.culprit->rank, 0);
    EXPECT_EQ(found.culprit->reason, "hang");
  }
}

TEST(Outcome, WhoDoesNotComeIsNamed) {
  const RankVerdict absent{.rank = 2,
                           .code = ErrorCode::kUnavailable,
                           .reason = "not all ranks have come",
                           .after_seconds = 9};
  const Outcome found = outcome({killed(2, 15, 10.1, true)}, absent);
  EXPECT_EQ(found.exit_status, 69);
  EXPECT_EQ(found.culprit->reason, "absent");
  EXPECT_EQ(found.culprit->text, "rank 2 (host n1) did not join");
}

TEST(Outcome, TheOomKillerIsNamed) {
  RankEnd end = killed(1, 9, 1.0);
  end.out_of_memory = true;
  const Outcome found = outcome({end});
  EXPECT_EQ(found.culprit->reason, "signal 9 (OOM-killer)");
  EXPECT_EQ(found.culprit->text, "rank 1 (host n1) was killed by SIGKILL (OOM-killer)");
}

TEST(Outcome, ASecondCtrlCEndsWith130) {
  EXPECT_EQ(outcome_of(std::vector{NodeReport{.failed = 1,
                                              .was_asked_to_stop = true,
                                              .was_ended_at_once = true,
                                              .failures = {killed(0, 9, 1.0, true)},
                                              .verdict = {}}})
                .exit_status,
            130);
}

TEST(NodeReports, TravelAsText) {
  NodeReport report{.node = 3,
                    .finished = 1,
                    .preempted = 2,
                    .failed = 40,
                    .was_asked_to_stop = true,
                    .failures = {},
                    .verdict = RankVerdict{.rank = 7, .code = ErrorCode::kHang, .reason = "x"},
                    .progress = SavedProgress{.start = 2, .iteration = 12}};
  for (int rank = 0; rank < 40; ++rank) {
    report.failures.push_back(killed(rank, 15, rank, rank < 39));
    report.failures.back().message = std::string(10000, 'x') + "\xff";
  }
  const std::string text = to_text(report);
  EXPECT_LE(text.size(), 16384U);
  const NodeReport read = parse_node_report(text);
  EXPECT_EQ(read.node, 3);
  EXPECT_EQ(read.failed, 40);
  EXPECT_EQ(read.failures[0].rank, 39);  // a cause of its own is kept before all others
  EXPECT_EQ(read.verdict->rank, 7);
  EXPECT_EQ(read.progress, report.progress);
  for (const char* broken : {"", "{", "[]", "{\"node\": \"x\"}"}) {
    EXPECT_ANY_THROW(parse_node_report(broken)) << broken;
  }
}

}  // namespace
}  // namespace phalanx::launch
