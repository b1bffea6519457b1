#include "phalanx/rendezvous/slurm_lists.h"

#include <gtest/gtest.h>

#include <string>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

std::string first(const std::string& list) { return first_slurm_host("NODES", list); }

TEST(SlurmLists, FirstHost) {
  EXPECT_EQ(first("n07"), "n07");
  EXPECT_EQ(first("n[01-03,07],m5"), "n01");
  EXPECT_EQ(first("n[7,9]"), "n7");
  EXPECT_EQ(first("rack[2-3]-n[001-128].lan,x"), "rack2-n001.lan");
  EXPECT_EQ(first("login,n[1-2]"), "login");
}

TEST(SlurmLists, WhatIsNoListOfHosts) {
  for (const std::string list : {"", ",", "n[", "n[]", "n[-3]", "n[1", "n[a-b]", "n[1x]", "n 1",
                                 "n;rm", "n[1]]", "\n", "n[1[2]]"}) {
    EXPECT_THROW(first(list), UsageError) << list;
  }
  EXPECT_THROW(first(std::string(300, 'n')), UsageError);
  EXPECT_THROW(first("n[" + std::string(300, '1') + "]"), UsageError);
}

TEST(SlurmLists, TasksOfHosts) {
  const auto expect = [](const std::string& list, int host, int hosts, int tasks, int of_host) {
    const SlurmTasks counted = slurm_tasks("TASKS", list, host);
    EXPECT_EQ(counted.hosts, hosts) << list;
    EXPECT_EQ(counted.tasks, tasks) << list;
    EXPECT_EQ(counted.of_host, of_host) << list << " host " << host;
  };
  expect("4", 0, 1, 4, 4);
  expect("2(x3),1", 0, 4, 7, 2);
  expect("2(x3),1", 2, 4, 7, 2);
  expect("2(x3),1", 3, 4, 7, 1);
  expect("1,8(x2)", 1, 3, 17, 8);
}

TEST(SlurmLists, WhatIsNoListOfTasks) {
  for (const std::string list :
       {"", "x", "2(", "2(x", "2(x3", "2(x0)", "2(x-1)", "-1", "2,", ",2", "2(x3)1", "2 ,1",
        "99999999999999999999", "1048576(x1048576)", "1048577"}) {
    EXPECT_THROW(slurm_tasks("TASKS", list, 0), UsageError) << list;
  }
  EXPECT_THROW(slurm_tasks("TASKS", "2(x3),1", 4), UsageError);
}

}  // namespace
}  // namespace phalanx::rendezvous
