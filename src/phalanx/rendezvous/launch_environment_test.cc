#include "phalanx/rendezvous/launch_environment.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

std::optional<LaunchEnvironment> read(const Environment& environment) {
  return read_launch_environment([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::string error_of(const Environment& environment) {
  try {
    (void)read(environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "no error";
}

Environment with(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

// torchrun's variables for rank 5 on two hosts with four ranks each.
Environment torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"ROLE_RANK", "5"},
          {"ROLE_WORLD_SIZE", "8"},
          {"MASTER_ADDR", "n01"},
          {"MASTER_PORT", "29400"},
          {"TORCHELASTIC_RUN_ID", "job7"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_MAX_RESTARTS", "3"},
          {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
}

Environment torchrun_on_one_host() {
  return with(torchrun(), {{"LOCAL_RANK", "5"},
                           {"LOCAL_WORLD_SIZE", "8"},
                           {"GROUP_RANK", "0"},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
}

// Rank 5 of `srun -N 4` with tasks 2, 2, 2, 1.
Environment slurm() {
  return {{"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_NTASKS", "7"},
          {"SLURM_STEP_NUM_TASKS", "7"},
          {"SLURM_PROCID", "5"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NODEID", "2"},
          {"SLURM_TASKS_PER_NODE", "8(x4)"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
          {"SLURM_STEP_NODELIST", "n[03-05],m1"},
          {"SLURM_JOB_NODELIST", "n[01-05],m1"},
          {"SLURM_RESTART_COUNT", "1"}};
}

Environment slurm_on_one_host() {
  return with(slurm(),
              {{"SLURM_LOCALID", "5"}, {"SLURM_NODEID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "7"}});
}

TEST(LaunchEnvironment, NobodyStartedThisProcess) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({{"RANK", ""}, {"WORLD_SIZE", ""}}));
  EXPECT_FALSE(read({{"MASTER_ADDR", "n01"}, {"MASTER_PORT", "29500"}, {"LOCAL_RANK", "0"}}));
}

TEST(LaunchEnvironment, AloneByHandIsNoWorld) {
  EXPECT_FALSE(read({{"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
}

Environment alone(Environment environment) {
  return with(std::move(environment), {{"RANK", "0"},
                                       {"WORLD_SIZE", "1"},
                                       {"LOCAL_RANK", "0"},
                                       {"LOCAL_WORLD_SIZE", "1"},
                                       {"GROUP_RANK", "0"}});
}

// The only process of a launcher: the launcher waits for it.
TEST(LaunchEnvironment, TheOnlyProcessOfALauncherIsARank) {
  const auto ours = read(with(alone(torchrun()), {{"PHALANX_COORDINATOR", "unix:there"}}));
  ASSERT_TRUE(ours);
  EXPECT_EQ(ours->world_size, 1);
  EXPECT_EQ(ours->endpoint, Endpoint::parse("unix:there"));
  EXPECT_FALSE(ours->hosts_coordinator);
  const auto torchruns = read(alone(torchrun()));
  ASSERT_TRUE(torchruns);
  EXPECT_EQ(torchruns->world_size, 1);
  EXPECT_EQ(torchruns->endpoint.kind, Endpoint::Kind::kUnix);
  EXPECT_TRUE(torchruns->hosts_coordinator);
  const Environment task = with(slurm(), {{"SLURM_STEP_NUM_TASKS", "1"},
                                          {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                          {"SLURM_PROCID", "0"},
                                          {"SLURM_LOCALID", "0"},
                                          {"SLURM_NODEID", "0"}});
  const auto slurms = read(task);
  ASSERT_TRUE(slurms);
  EXPECT_EQ(slurms->world_size, 1);
  EXPECT_EQ(slurms->source, "Slurm");
  // Ranks started by hand in a shell of srun.
  const auto by_hand = read(with(task, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}));
  ASSERT_TRUE(by_hand);
  EXPECT_EQ(by_hand->world_size, 2);
  EXPECT_EQ(by_hand->source, "RANK and WORLD_SIZE");
  EXPECT_FALSE(read(with(task, {{"RANK", "0"}, {"WORLD_SIZE", "1"}})));
}

TEST(LaunchEnvironment, TorchrunOnSeveralHosts) {
  const auto environment = read(torchrun());
  ASSERT_TRUE(environment);
  EXPECT_EQ(environment->source, "torchrun");
  EXPECT_EQ(environment->rank, 5);
  EXPECT_EQ(environment->world_size, 8);
  EXPECT_EQ(environment->node, 1);
  EXPECT_EQ(environment->local_rank, 1);
  EXPECT_EQ(environment->local_size, 4);
  EXPECT_EQ(environment->run_id, "job7");
  EXPECT_EQ(environment->attempt, 2);
  EXPECT_EQ(environment->endpoint.to_text(), "tcp:n01:29400");
  EXPECT_FALSE(environment->hosts_coordinator);
  EXPECT_EQ(environment->note, "");
  const auto first =
      read(with(torchrun(), {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"GROUP_RANK", "0"}}));
  EXPECT_TRUE(first->hosts_coordinator);
}

TEST(LaunchEnvironment, NextPortWhereTorchrunListensItself) {
  const auto environment = read(with(torchrun(), {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  EXPECT_EQ(environment->endpoint.to_text(), "tcp:n01:29401");
  EXPECT_EQ(environment->note,
            "torchrun itself listens on MASTER_PORT=29400: rank 0 listens on port 29401");
  EXPECT_EQ(error_of(with(torchrun(),
                          {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}})),
            "MASTER_PORT=65535: torchrun listens on it, and there is no next one");
}

// No port is opened: the name of the Unix socket is the user's, the run's and the port's.
TEST(LaunchEnvironment, TorchrunOnOneHost) {
  const auto environment = read(torchrun_on_one_host());
  EXPECT_EQ(environment->endpoint.to_text(), fmt::format("unix:phalanx-{}-job7-29400", ::getuid()));
  EXPECT_EQ(environment->local_rank, 5);
  EXPECT_EQ(environment->note, "");
}

TEST(LaunchEnvironment, NameOfTheSocketIsBoundedAndPlain) {
  const auto name = [](const std::string& run_id) {
    return read(with(torchrun_on_one_host(), {{"TORCHELASTIC_RUN_ID", run_id}}))->endpoint.name;
  };
  EXPECT_EQ(name("a b/ü%"), fmt::format("phalanx-{}-a%20b%2f%c3%bc%25-29400", ::getuid()));
  const std::string long_id(100, 'x');
  EXPECT_LE(name(long_id).size(), 107U);
  EXPECT_NE(name(long_id + "1"), name(long_id + "2"));
  EXPECT_NE(name(std::string(100, '/')), name(std::string(101, '/')));
  EXPECT_EQ(error_of(with(torchrun(), {{"TORCHELASTIC_RUN_ID", std::string(129, 'x')}})),
            "TORCHELASTIC_RUN_ID has 129 characters; at most 128");
}

TEST(LaunchEnvironment, OwnLauncherSaysWhereItListens) {
  Environment given = with(torchrun(), {{"PHALANX_COORDINATOR", "tcp:[fe80::1]:4000"},
                                        {"RANK", "0"},
                                        {"LOCAL_RANK", "0"},
                                        {"GROUP_RANK", "0"}});
  const auto environment = read(given);
  EXPECT_EQ(environment->source, "phalanx launch");
  EXPECT_EQ(environment->endpoint.to_text(), "tcp:[fe80::1]:4000");
  EXPECT_FALSE(environment->hosts_coordinator);
  given["PHALANX_COORDINATOR"] = "unix:";
  EXPECT_EQ(error_of(given),
            "PHALANX_COORDINATOR=unix:: not an endpoint: expected unix:NAME, tcp:HOST:PORT or "
            "tcp:[ADDRESS]:PORT");
  EXPECT_EQ(error_of({{"PHALANX_COORDINATOR", "unix:x"}}),
            "PHALANX_COORDINATOR is set, but WORLD_SIZE is not");
}

TEST(LaunchEnvironment, ByHandOnOneHost) {
  for (const std::string host : {"", "localhost", "127.0.0.1", "127.1.2.3", "::1"}) {
    const auto environment = read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", host}});
    ASSERT_TRUE(environment) << host;
    EXPECT_EQ(environment->source, "RANK and WORLD_SIZE");
    EXPECT_EQ(environment->node, 0);
    EXPECT_EQ(environment->local_rank, 1);
    EXPECT_EQ(environment->local_size, 2);
    EXPECT_EQ(environment->run_id, "none");
    EXPECT_EQ(environment->endpoint.name, fmt::format("phalanx-{}-none-29500", ::getuid()));
  }
}

TEST(LaunchEnvironment, ByHandOnSeveralHosts) {
  const auto one_each = read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}});
  EXPECT_EQ(one_each->node, 1);
  EXPECT_EQ(one_each->local_rank, 0);
  EXPECT_EQ(one_each->local_size, 1);
  EXPECT_EQ(one_each->endpoint.to_text(), "tcp:10.0.0.1:29500");
  EXPECT_EQ(one_each->note, "MASTER_PORT is not set: rank 0 listens on port 29500");
  const auto counted = read({{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "fd00::1"},
                             {"MASTER_PORT", "6000"}});
  EXPECT_EQ(counted->node, 1);
  EXPECT_EQ(counted->local_rank, 1);
  EXPECT_EQ(counted->endpoint.to_text(), "tcp:[fd00::1]:6000");
}

// For messages: what is no number is nobody's, and not rank 0's.
TEST(LaunchEnvironment, TheRankForMessagesIsANumberOrNothing) {
  const auto rank = [](const Environment& environment) {
    return launched_rank([&](const char* name) -> const char* {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(rank({}), std::nullopt);
  EXPECT_EQ(rank({{"RANK", "5"}, {"SLURM_PROCID", "2"}}), 5);
  EXPECT_EQ(rank({{"RANK", ""}, {"SLURM_PROCID", "2"}}), 2) << "cleared by export RANK=";
  for (const char* const text : {"abc", "1a", " 1", "-1", "99999999999", "0x1", "1.0"}) {
    EXPECT_EQ(rank({{"RANK", text}}), std::nullopt) << text;
  }
}

TEST(LaunchEnvironment, NumbersThatAreNone) {
  EXPECT_EQ(error_of({{"RANK", "0"}, {"WORLD_SIZE", "two"}}),
            "WORLD_SIZE=two: expected a whole number from 1 to 1048576");
  EXPECT_EQ(error_of({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}),
            "RANK=-1: expected a whole number from 0 to 1048575");
  for (const std::string odd :
       {" 1", "1 ", "+1", "0x1", "1.0", "99999999999999999999", "1\n", "4294967296", "\x1b[31m"}) {
    for (const std::string name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                   "GROUP_RANK", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}) {
      const std::string error = error_of(with(torchrun(), {{name, odd}}));
      EXPECT_THAT(error, HasSubstr(name + "=")) << odd;
      EXPECT_EQ(error.find_first_of("\n\x1b"), std::string::npos) << error;
    }
  }
  EXPECT_THAT(error_of({{"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE=0"));
}

TEST(LaunchEnvironment, VariablesThatContradictEachOther) {
  EXPECT_EQ(error_of({{"WORLD_SIZE", "2"}}), "WORLD_SIZE=2 is set, but RANK is not");
  EXPECT_EQ(error_of({{"RANK", "2"}}), "RANK is set, but WORLD_SIZE is not");
  EXPECT_EQ(error_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "RANK=2 is not below WORLD_SIZE=2");
  EXPECT_EQ(error_of({{"RANK", "1"}, {"WORLD_SIZE", "1"}}), "RANK=1 is not below WORLD_SIZE=1");
  EXPECT_EQ(error_of(with(torchrun(), {{"LOCAL_RANK", "4"}})),
            "LOCAL_RANK=4 is not below LOCAL_WORLD_SIZE=4");
  EXPECT_EQ(error_of(with(torchrun(), {{"LOCAL_WORLD_SIZE", "9"}})),
            "LOCAL_WORLD_SIZE=9 is more than WORLD_SIZE=8");
  EXPECT_EQ(error_of(with(torchrun_on_one_host(), {{"GROUP_RANK", "1"}})),
            "GROUP_RANK=1, but all 8 ranks are on one host (LOCAL_WORLD_SIZE=8)");
  EXPECT_EQ(error_of(with(torchrun_on_one_host(), {{"LOCAL_RANK", "4"}})),
            "LOCAL_RANK=4 is not RANK=5, though all ranks are on one host");
  EXPECT_EQ(error_of(without(torchrun(), "MASTER_ADDR")),
            "MASTER_ADDR, the address of rank 0's host, is not set, and 4 ranks are on other "
            "hosts");
  EXPECT_EQ(error_of(without(torchrun(), "LOCAL_WORLD_SIZE")),
            "GROUP_RANK is set, but LOCAL_WORLD_SIZE, the number of ranks on this host, is not");
  EXPECT_EQ(error_of(without(without(torchrun(), "LOCAL_WORLD_SIZE"), "GROUP_RANK")),
            "LOCAL_RANK=1 is set, but LOCAL_WORLD_SIZE, the number of ranks on this host, is not");
  EXPECT_EQ(error_of(without(with(torchrun(), {{"LOCAL_WORLD_SIZE", "3"}}), "GROUP_RANK")),
            "GROUP_RANK, the number of this host, is not set, and WORLD_SIZE=8 is no multiple of "
            "LOCAL_WORLD_SIZE=3");
  EXPECT_EQ(error_of(with(torchrun(), {{"MASTER_ADDR", "n01 n02"}})),
            "MASTER_ADDR=n01 n02: not a host's name or address");
}

TEST(LaunchEnvironment, SlurmOnSeveralHosts) {
  const auto environment = read(slurm());
  ASSERT_TRUE(environment);
  EXPECT_EQ(environment->source, "Slurm");
  EXPECT_EQ(environment->rank, 5);
  EXPECT_EQ(environment->world_size, 7);
  EXPECT_EQ(environment->node, 2);
  EXPECT_EQ(environment->local_rank, 1);
  EXPECT_EQ(environment->local_size, 2);
  EXPECT_EQ(environment->run_id, "4711.0");
  EXPECT_EQ(environment->attempt, 1);
  EXPECT_EQ(environment->endpoint.to_text(), "tcp:n03:14711");
  EXPECT_EQ(environment->note,
            "MASTER_PORT is not set: rank 0 listens on port 14711, made of the job's and the "
            "step's number");
  const auto exported =
      read(with(slurm(), {{"MASTER_ADDR", "n99"}, {"MASTER_PORT", "6000"}, {"RANK", "5"}}));
  EXPECT_EQ(exported->endpoint.to_text(), "tcp:n99:6000");
  EXPECT_EQ(exported->note, "");
  EXPECT_NE(read(with(slurm(), {{"SLURM_STEP_ID", "1"}}))->endpoint, environment->endpoint);
}

TEST(LaunchEnvironment, SlurmOnOneHost) {
  const auto environment = read(slurm_on_one_host());
  EXPECT_EQ(environment->endpoint.to_text(),
            fmt::format("unix:phalanx-{}-4711.0-14711", ::getuid()));
  EXPECT_EQ(environment->local_size, 7);
}

// A batch script and an interactive shell have Slurm's variables, too, but are no ranks.
TEST(LaunchEnvironment, SlurmWithoutSrun) {
  EXPECT_FALSE(read(without(slurm(), "SLURM_STEP_ID")));
  EXPECT_FALSE(read(with(slurm(), {{"SLURM_STEP_ID", "4294967291"}})));
  EXPECT_FALSE(read(with(slurm(), {{"SLURM_STEP_ID", "4294967290"}})));
}

// `srun torchrun ...`: one task a host, which starts the ranks itself.
TEST(LaunchEnvironment, TorchrunWinsInsideSlurm) {
  Environment both = slurm();
  for (const auto& [name, value] : torchrun()) both[name] = value;
  const auto environment = read(both);
  EXPECT_EQ(environment->source, "torchrun");
  EXPECT_EQ(environment->world_size, 8);
}

TEST(LaunchEnvironment, SlurmAndVariablesByHand) {
  EXPECT_EQ(error_of(with(slurm(), {{"RANK", "3"}})),
            "RANK=3 is set, but SLURM_PROCID=5: unset RANK, or start the ranks without srun");
  EXPECT_EQ(error_of(with(slurm(), {{"WORLD_SIZE", "8"}})),
            "WORLD_SIZE=8 is set, but SLURM_STEP_NUM_TASKS=7: unset WORLD_SIZE, or start the ranks "
            "without srun");
  EXPECT_EQ(error_of(with(slurm(), {{"LOCAL_RANK", "0"}})),
            "LOCAL_RANK=0 is set, but SLURM_LOCALID=1: unset LOCAL_RANK, or start the ranks "
            "without srun");
  EXPECT_TRUE(read(with(slurm(), {{"RANK", "5"}, {"WORLD_SIZE", "7"}, {"LOCAL_RANK", "1"}})));
}

TEST(LaunchEnvironment, SlurmThatContradictsItself) {
  EXPECT_EQ(error_of(with(slurm(), {{"SLURM_PROCID", "7"}})),
            "SLURM_PROCID=7 is not below SLURM_STEP_NUM_TASKS=7");
  EXPECT_EQ(error_of(without(slurm(), "SLURM_PROCID")),
            "SLURM_STEP_ID is set, but SLURM_PROCID is not");
  EXPECT_EQ(error_of(without(slurm(), "SLURM_JOB_ID")),
            "SLURM_STEP_ID is set, but SLURM_JOB_ID is not");
  EXPECT_EQ(error_of(with(slurm(), {{"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}, {"RANK", ""}})),
            "SLURM_STEP_TASKS_PER_NODE=2(x3) are 6 tasks, but SLURM_STEP_NUM_TASKS=7");
  EXPECT_EQ(error_of(with(slurm(), {{"SLURM_LOCALID", "2"}})),
            "SLURM_LOCALID=2 is not below the 2 tasks of this host "
            "(SLURM_STEP_TASKS_PER_NODE=2(x3),1)");
  EXPECT_EQ(error_of(with(slurm(), {{"SLURM_NODEID", "4"}})),
            "SLURM_STEP_TASKS_PER_NODE=2(x3),1 lists 4 hosts, and SLURM_NODEID=4 is none of them");
  EXPECT_EQ(error_of(with(slurm(), {{"SLURM_STEP_NODELIST", "n["}})),
            "SLURM_STEP_NODELIST=n[: not a list of hosts such as n[01-03],m5; set MASTER_ADDR");
}

TEST(Endpoint, TextAndBack) {
  for (const std::string text : {"unix:phalanx-0-none-29500", "unix:a:b", "tcp:n01:0",
                                 "tcp:10.0.0.1:65535", "tcp:[::1]:29500", "tcp:[fe80::1%eth0]:1"})
    EXPECT_EQ(Endpoint::parse(text).to_text(), text);
}

TEST(Endpoint, WhatIsNone) {
  for (const std::string text :
       {"", "unix", "unix:", "tcp:", "tcp:host", "tcp::1", "tcp:host:", "tcp:host:x", "tcp:host:-1",
        "tcp:host:65536", "tcp:host:99999999999999", "tcp:::1:29500", "tcp:[::1:29500", "tcp:[]:1",
        "udp:host:1", "unix:a b", "tcp:a\nb:1", "tcp:h:1 "})
    EXPECT_THROW(Endpoint::parse(text), UsageError) << text;
  EXPECT_THROW(Endpoint::parse("unix:" + std::string(108, 'x')), UsageError);
  EXPECT_THROW(Endpoint::parse("tcp:" + std::string(254, 'x') + ":1"), UsageError);
}

}  // namespace
}  // namespace phalanx
