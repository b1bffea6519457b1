#include "phalanx/launch/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/test_support.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

bool is_command(const std::string& word) { return word == "pretrain" || word == "version"; }

LaunchOptions parse(Words words, const Variables& variables = {}) {
  words.insert(words.end(), {"--", "pretrain", "gpt", "--lr", "1"});
  return parse_launch_options(words, is_command, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

template <typename Fault>
void expect_fault(const Words& words, const std::string& mention) {
  EXPECT_THAT(error_of<Fault>([&] { parse(words); }), HasSubstr(mention));
}

TEST(LaunchOptions, AreTorchrunsWithItsDefaults) {
  const LaunchOptions options = parse({});
  EXPECT_EQ(options.ranks, 1);
  EXPECT_EQ(options.nodes, 1);
  EXPECT_EQ(options.max_restarts, 0);
  EXPECT_EQ(options.master_address, "127.0.0.1");
  EXPECT_EQ(options.master_port, 29500);
  EXPECT_EQ(options.run_id, "");
  EXPECT_EQ(options.role, "default");
  EXPECT_THAT(options.stop_signals, ElementsAre(SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2));
  EXPECT_THAT(options.command, ElementsAre("pretrain", "gpt", "--lr", "1"));
}

TEST(LaunchOptions, ReadSeveralNodes) {
  const LaunchOptions options =
      parse({"--nproc_per_node", "4", "--nnodes=2:2", "--node-rank", "1", "--rdzv-endpoint",
             "[fe80::1]:400", "--rdzv-id", "job7", "--max_restarts=3"});
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.nodes, 2);
  EXPECT_EQ(options.node, 1);
  EXPECT_EQ(options.master_address, "fe80::1");
  EXPECT_EQ(options.master_port, 400);
  EXPECT_EQ(options.run_id, "job7");
  EXPECT_EQ(options.max_restarts, 3);
  const Words nodes = {"--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint"};
  const auto endpoint = [&](const std::string& text) {
    Words words = nodes;
    words.push_back(text);
    const LaunchOptions read = parse(words);
    return read.master_address + " " + std::to_string(read.master_port);
  };
  EXPECT_EQ(endpoint("n01"), "n01 29500");
  EXPECT_EQ(endpoint("n01:5"), "n01 5");
  EXPECT_EQ(endpoint("::1"), "::1 29500");
  EXPECT_EQ(endpoint("[::1]"), "::1 29500");
}

TEST(LaunchOptions, CoresAreCounted) {
  EXPECT_EQ(parse({"--nproc-per-node", "auto"}).ranks, usable_cores().count);
  EXPECT_EQ(parse({"--nproc-per-node", "cpu"}).ranks, usable_cores().count);
}

TEST(LaunchOptions, OutputIsChosenAsWithTorchrun) {
  const LaunchOptions options = parse({"--nproc-per-node", "3", "--log-dir", "logs", "-r", "1",
                                       "-t", "0:1,1:3", "--local-ranks-filter", "0,2"});
  EXPECT_EQ(options.log_directory, "logs");
  EXPECT_TRUE(options.redirects.takes_output(2));
  EXPECT_FALSE(options.redirects.takes_error(2));
  EXPECT_TRUE(options.tee.takes_output(0));
  EXPECT_TRUE(options.tee.takes_error(1));
  EXPECT_FALSE(options.tee.takes_output(2));
  EXPECT_THAT(*options.console_ranks, ElementsAre(0, 2));
  expect_fault<UsageError>({"--tee", "4"}, "0:1,1:3");
  expect_fault<UsageError>({"--tee", "1:"}, "0:1,1:3");
  expect_fault<UsageError>({"--tee", "1:3,"}, "0:1,1:3");
  expect_fault<ConfigError>({"--tee", "1:3"}, "names local rank 1: this node has 1");
  expect_fault<ConfigError>({"--redirects", "3"}, "--redirects 3 needs --log-dir");
}

// The variables of torchrun's flags, which operators of clusters set.
TEST(LaunchOptions, ComeFromTheEnvironmentToo) {
  const Variables variables = {{"PET_NNODES", "3"},           {"PET_NODE_RANK", "2"},
                               {"PET_MASTER_ADDR", "leader"}, {"PET_NPROC_PER_NODE", "8"},
                               {"PET_STANDALONE", "0"},       {"PET_RDZV_BACKEND", "c10d"}};
  const LaunchOptions options = parse({"--nproc-per-node", "2"}, variables);
  EXPECT_EQ(options.nodes, 3);
  EXPECT_EQ(options.node, 2);
  EXPECT_EQ(options.master_address, "leader");
  EXPECT_EQ(options.ranks, 2);
  const LaunchOptions slurm =
      parse({"--nnodes", "2", "--master-addr", "n01"}, {{"SLURM_NODEID", "1"}});
  EXPECT_EQ(slurm.node, 1);
}

TEST(LaunchOptions, TheSecretMayComeFromTheEnvironment) {
  const Variables variables = {{"PHALANX_RDZV_SECRET_FILE", "/key"}};
  EXPECT_EQ(parse({}, variables).secret_file, "/key");
  EXPECT_EQ(parse({}, variables).secret_flag, "PHALANX_RDZV_SECRET_FILE");
  EXPECT_EQ(parse({"--rdzv-secret-file", "own"}, variables).secret_file, "own");
  EXPECT_EQ(parse({"--rdzv-insecure"}, variables).secret_file, "");
}

TEST(LaunchOptions, WhatIsSatisfiedIsSaid) {
  const LaunchOptions options =
      parse({"--rdzv-backend", "static", "--monitor-interval", "5", "--no-python",
             "--start-method=spawn", "--local-addr", "n01", "--rdzv-conf", "join_timeout=30"});
  EXPECT_EQ(options.notes.size(), 5U);
  EXPECT_THAT(options.notes, testing::Contains(HasSubstr("nothing runs under Python")));
  EXPECT_EQ(options.join_timeout, std::chrono::seconds(30));
  EXPECT_EQ(options.save_timeout, std::chrono::minutes(1));
}

TEST(LaunchOptions, WhatMakesNoSenseIsRefusedWithTheReason) {
  expect_fault<ConfigError>({"--nnodes", "1:4"}, "nodes neither come nor go");
  expect_fault<ConfigError>({"--rdzv-backend", "etcd"}, "nodes meet at node 0");
  expect_fault<ConfigError>({"--start-method", "fork"}, "programs of their own");
  expect_fault<ConfigError>({"-m"}, "nothing runs under Python");
  expect_fault<ConfigError>({"--numa-binding", "node"}, "bind themselves");
  expect_fault<ConfigError>({"--logs-specs", "x"}, "one form of logs");
  expect_fault<ConfigError>({"--nproc-per-node", "gpu"}, "compute on processors");
  expect_fault<ConfigError>({"--rdzv-conf", "read_timeout=3"}, "join_timeout=SECONDS");
  expect_fault<ConfigError>({"--rdzv-conf", "save_timeout"}, "save_timeout=SECONDS");
  expect_fault<UsageError>({"--rdzv-conf", "save_timeout=soon"}, "number");
  expect_fault<ConfigError>({"--standalone", "--nnodes", "2"}, "contradict");
  expect_fault<UsageError>({"--nproc-per-node", "none"}, "must be a number");
  expect_fault<UsageError>({"--nproc-per-node", "0"}, "at least 1");
  expect_fault<UsageError>({"--nnodes", "2"}, "--node-rank must be given");
  expect_fault<UsageError>({"--nnodes", "2", "--node-rank", "0"}, "--master-addr HOST");
  expect_fault<ConfigError>({"--nnodes", "2", "--node-rank", "2", "--master-addr", "a"},
                            "below --nnodes 2");
  expect_fault<UsageError>({"--rdzv-id", "../up"}, "names a directory");
  expect_fault<UsageError>({"--signals-to-handle", "SIGKILL"}, "SIGKILL is none of");
  expect_fault<UsageError>({"--nproc-per-nod", "2"}, "did you mean --nproc-per-node?");
  expect_fault<ConfigError>({"--master-addr", "a", "--rdzv-endpoint", "b"}, "exclude each other");
}

const char* nothing(const char* /*name*/) { return nullptr; }

TEST(LaunchOptions, TheFirstCommandEndsTheFlags) {
  const auto command_of = [](const Words& words) {
    return parse_launch_options(words, is_command, nothing).command;
  };
  EXPECT_THAT(command_of({"pretrain", "gpt", "--lr", "1"}),
              ElementsAre("pretrain", "gpt", "--lr", "1"));
  EXPECT_THAT(command_of({"--nproc-per-node", "2", "pretrain", "--help"}),
              ElementsAre("pretrain", "--help"));
  EXPECT_THAT(command_of({"--nproc_per_node=2", "--no-python", "version"}), ElementsAre("version"));
  EXPECT_THAT(command_of({"--", "pretrain", "--", "version"}),
              ElementsAre("pretrain", "--", "version"));
  EXPECT_THAT(command_of({"--", "anything"}), ElementsAre("anything"));
  // A flag's value is none, whatever it says.
  const LaunchOptions options = parse_launch_options(
      {"--rdzv-id", "pretrain", "-t", "3", "--role", "version", "pretrain", "gpt"}, is_command,
      nothing);
  EXPECT_EQ(options.run_id, "pretrain");
  EXPECT_EQ(options.role, "version");
  EXPECT_THAT(options.command, ElementsAre("pretrain", "gpt"));
}

TEST(LaunchOptions, WithoutACommandNothingIsStarted) {
  const auto expect_usage = [](const Words& words, const std::string& mention) {
    EXPECT_THAT(error_of<UsageError>([&] { parse_launch_options(words, is_command, nothing); }),
                HasSubstr(mention));
  };
  expect_usage({}, "must follow the flags");
  expect_usage({"--nproc-per-node", "2", "--"}, "must follow the flags");
  expect_usage({"--nproc-per-node", "2", "pretrian", "gpt"}, "pretrian is no command");
  // What torchrun is given.
  expect_usage({"--nproc-per-node", "2", "pretrain_gpt.py", "--num-layers", "2"},
               "pretrain_gpt.py: nothing runs under Python here: give a command in its place, with "
               "the same flags behind it: phalanx launch --nproc-per-node 2 pretrain gpt ...");
  expect_usage({"--", "/opt/megatron/pretrain_t5.py"}, "--nproc-per-node 1 pretrain t5 ...");
  expect_usage({"python3", "pretrain_bert.py"}, "python3: nothing runs under Python here");
  expect_usage({"--rdzv-id", "pretrain"}, "must follow the flags");
  try {
    parse_launch_options({"--help"}, is_command, nothing);
    ADD_FAILURE() << "no help";
  } catch (const HelpRequested& help) {
    EXPECT_THAT(help.text, HasSubstr("usage: phalanx launch FLAGS [--] pretrain gpt FLAGS\n"));
    EXPECT_THAT(help.text, HasSubstr("of torchrun's need nothing here or are refused"));
  }
}

}  // namespace
}  // namespace phalanx::launch
