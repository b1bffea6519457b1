#include "phalanx/cli/job_environment.h"

#include <gtest/gtest.h>

#include <map>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using Variables = std::map<std::string, std::string>;

// "NAME: restarts" of each.
std::vector<std::string> job_of(const Variables& variables) {
  const auto value = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  std::vector<std::string> texts;
  for (const JobName& job : job_of_environment(value, "boot/77/1234")) {
    texts.push_back(job.name + ": " + std::to_string(job.restarts));
  }
  return texts;
}

using Texts = std::vector<std::string>;

// A name that came back from the job's record as another would begin the job anew.
TEST(JobEnvironment, ANameThatIsNoUtf8IsRefused) {
  for (const char* const variable :
       {"PHALANX_LAUNCH", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "TORCHELASTIC_RESTART_COUNT"}) {
    EXPECT_NE(error_of<UsageError>([&] {
                job_of({{variable, "a\xff"}});
              }).find(std::string("the environment's ") + variable + " 'a\\xff'"),
              std::string::npos)
        << variable;
  }
}

TEST(JobEnvironment, WhoeverStartsAJobNamesIt) {
  EXPECT_EQ(job_of({}), Texts{});
  // A count alone names nothing.
  EXPECT_EQ(job_of({{"TORCHELASTIC_RESTART_COUNT", "2"}, {"SLURM_RESTART_COUNT", "1"}}), Texts{});
  EXPECT_EQ(job_of({{"PHALANX_LAUNCH", "3f"},
                    {"TORCHELASTIC_RUN_ID", "mine"},
                    {"TORCHELASTIC_RESTART_COUNT", "2"}}),
            Texts{"phalanx launch 3f: 2"});
  EXPECT_EQ(job_of({{"TORCHELASTIC_RUN_ID", "none"}}),
            Texts{"torchrun none of process boot/77/1234: 0"});
  EXPECT_EQ(job_of({{"SLURM_JOB_ID", "4711"}, {"SLURM_RESTART_COUNT", "1"}}),
            Texts{"Slurm job 4711: 1"});
  // A launcher within a job that Slurm has started again.
  EXPECT_EQ(job_of({{"PHALANX_LAUNCH", "3f"},
                    {"SLURM_CLUSTER_NAME", "c1"},
                    {"SLURM_JOB_ID", "4711"},
                    {"SLURM_RESTART_COUNT", "1"}}),
            (Texts{"phalanx launch 3f: 0", "Slurm job c1/4711: 1"}));
}

TEST(JobEnvironment, WhatIsNoCountIsNamed) {
  for (const char* name : {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"}) {
    for (const char* text : {"one", "-1", "1x"}) {
      EXPECT_THROW(job_of({{name, text}}), UsageError) << name << text;
    }
  }
}

// It is the same as long as the parent is.
TEST(JobEnvironment, TheParentIsThisOne) {
  ::setenv("TORCHELASTIC_RUN_ID", "none", 1);
  RunConfig one;
  RunConfig two;
  read_job(one);
  read_job(two);
  ::unsetenv("TORCHELASTIC_RUN_ID");
  ASSERT_FALSE(one.job.empty());
  EXPECT_EQ(one.job.front().name, two.job.front().name);
  EXPECT_GT(one.job.front().name.size(), std::string("torchrun none of process //").size() + 36);
}

}  // namespace
}  // namespace phalanx
