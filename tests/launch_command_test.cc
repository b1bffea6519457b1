// `phalanx launch` as people call it, with ranks that are the program itself.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "program_test.h"
#include "tests/paths.h"

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

// The first word that is a command ends the launcher's flags.
TEST_F(LaunchCommand, TheCommandNeedsNoDashes) {
  const ProgramOutput output = run("launch --nproc-per-node 2 --role version version");
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, run("version").out);
  expect_error("launch --nproc-per-node 2 verison", 64, "verison is no command");
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

// A port that nobody listens on now.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

TEST_F(LaunchCommand, TwoNodesMeetAndEndAlike) {
  write("key", "sixteen bytes or more");
  std::filesystem::permissions(directory_ / "key", std::filesystem::perms::owner_read);
  const auto node = [port = free_port()](int number, const std::string& command) {
    return fmt::format(
        "launch --nnodes 2 --node-rank {} --rdzv-endpoint 127.0.0.1:{} --rdzv-secret-file key "
        "--nproc-per-node 2 --log-dir logs --rdzv-id two -- {}",
        number, port, command);
  };
  for (const auto& [command, status] :
       {std::pair{"version", 0}, std::pair{"checkpoint info nowhere", 66}}) {
    const std::string other =
        fmt::format("'{}' {} >out1 2>err1 & other=$!", program_path(), node(1, command));
    const ProgramOutput output = run_between(
        other, node(0, command), "; status=$?; wait $other; echo $? >status1; exit $status");
    EXPECT_EQ(output.status, status) << output.err;
    EXPECT_EQ(read("status1"), fmt::format("{}\n", status)) << read("err1");
    EXPECT_EQ(Json::parse(read("logs/two/summary.json"))["world_size"], 4);
  }
  EXPECT_EQ(read("logs/two/attempt_0/rank_3.out"), run("version").out);
}

TEST_F(LaunchCommand, WhatCannotBeStartedIsToldBefore) {
  expect_error("launch --nproc-per-node 2", 64, "must follow the flags");
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
