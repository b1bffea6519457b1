// `phalanx launch` as people call it, with ranks that are the program itself.

#include <gmock/gmock.h>

#include "program_test.h"

namespace phalanx {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

class LaunchCommand : public ProgramTest {};

TEST_F(LaunchCommand, RanksRunTheProgram) {
  const ProgramOutput output =
      run("launch --nproc-per-node 3 --log-dir logs --rdzv-id one -- version");
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, run("version").out);
  EXPECT_EQ(read("logs/one/attempt_0/rank_2.out"), output.out);
  EXPECT_THAT(output.err, EndsWith("phalanx launch: 3 ranks finished; exit 0\n"));
  const Json summary = Json::parse(read("logs/one/summary.json"));
  EXPECT_EQ(summary["exit"], 0);
  EXPECT_EQ(summary["world_size"], 3);
}

// Nothing but the streams is needed.
TEST_F(LaunchCommand, RunsWithoutLogs) {
  const ProgramOutput output = run("launch --nproc_per_node=2 -- version");
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, run("version").out);
}

TEST_F(LaunchCommand, TheRunsExitStatusIsTheRanks) {
  const ProgramOutput output =
      run("launch --nproc-per-node 4 --log-dir logs --rdzv-id one --max-restarts 3 -- "
          "checkpoint info nowhere");
  EXPECT_EQ(output.status, 66) << output.err;
  EXPECT_THAT(output.err, HasSubstr("[ranks 1-3] error: phalanx checkpoint info: "));
  EXPECT_THAT(output.err, HasSubstr("(x3)\n"));
  EXPECT_THAT(output.err, HasSubstr("not started again: after exit 66 it would fail again\n"));
  EXPECT_THAT(output.err, HasSubstr("ended with exit code 66; 3 other ranks stopped; exit 66\n"));
  const Json summary = Json::parse(read("logs/one/summary.json"));
  EXPECT_EQ(summary["attempts"], 1);
  EXPECT_EQ(summary["culprit"]["reason"], "exit 66");
  EXPECT_THAT(summary["culprit"]["message"].get<std::string>(), HasSubstr("nowhere"));
}

TEST_F(LaunchCommand, WhatCannotBeStartedIsToldBefore) {
  expect_error("launch --nproc-per-node 2", 64, "must follow --");
  expect_error("launch --nnodes 1:2 -- version", 78, "nodes neither come nor go");
  expect_error("launch --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 -- version", 77,
               "--rdzv-secret-file FILE");
  expect_error("launch --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 -- version", 77,
               "--rdzv-insecure");
  write("file", "");
  expect_error("launch --log-dir file -- version", 73, "file");
}

}  // namespace
}  // namespace phalanx
