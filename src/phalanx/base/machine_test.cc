#include "phalanx/base/machine.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <thread>

#include "phalanx/base/control_groups.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// A directory in place of /.
class MachineTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  // The process is in /job/step; /sys/fs/cgroup is the whole hierarchy.
  void unified() const {
    write("proc/self/cgroup", "0::/job/step\n");
    write("proc/self/mountinfo",
          "22 1 0:3 / /proc rw - proc proc rw\n"
          "31 22 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n");
  }
  // As in a container: the names are the host's, the mounts are the container's.
  void legacy() const {
    write("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n");
    write("proc/self/mountinfo",
          "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
          "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  }

  const TemporaryDirectory temporary_{"machine"};
  const fs::path root_ = temporary_.path();
};

const int kCores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));

TEST_F(MachineTest, FindsTheGroupsOfTheProcess) {
  EXPECT_TRUE(control_groups("cpu", root_).empty());
  unified();
  const auto groups = control_groups("cpu", root_);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].name, "/job/step");
  EXPECT_EQ(groups[0].directory, root_ / "sys/fs/cgroup/job/step");
  EXPECT_EQ(groups[1].name, "/job");
  EXPECT_EQ(groups[2].name, "/");
  legacy();
  ASSERT_EQ(control_groups("cpu", root_).size(), 1U);
  EXPECT_EQ(control_groups("cpu", root_)[0].version, 1);
  EXPECT_TRUE(control_groups("pids", root_).empty());
}

TEST_F(MachineTest, CoresWithoutLimits) {
  unified();
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(usable_cores(root_).count, usable_cores(root_ / "nowhere").count);
  EXPECT_LE(usable_cores(root_).count, kCores);
}

TEST_F(MachineTest, AQuotaOfAnyGroupCounts) {
  unified();
  write("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
  write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(usable_cores(root_).count, 1);
  EXPECT_EQ(usable_cores(root_).reason, "1 core by cpu.max of cgroup /job");
  legacy();
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(root_).count, usable_cores(root_ / "nowhere").count);
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "90000\n");
  EXPECT_EQ(usable_cores(root_).reason, "1 core by cpu.cfs_quota_us of cgroup /");
}

TEST_F(MachineTest, AQuotaIsRoundedDown) {
  if (usable_cores(root_).count < 2) GTEST_SKIP() << "one core";
  unified();
  write("sys/fs/cgroup/cpu.max", "190000 100000\n");
  EXPECT_EQ(usable_cores(root_).count, 1);
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(usable_cores(root_).count, 2);
}

TEST_F(MachineTest, CountsTheCoresOfTheThread) {
  if (usable_cores(root_).count < 2) GTEST_SKIP() << "one core";
  UsableCores bound;
  std::thread([&] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    sched_getaffinity(0, sizeof mask, &mask);
    int core = 0;
    while (!CPU_ISSET(core, &mask)) ++core;
    CPU_ZERO(&mask);
    CPU_SET(core, &mask);
    sched_setaffinity(0, sizeof mask, &mask);
    bound = usable_cores(root_);
  }).join();
  EXPECT_EQ(bound.count, 1);
  EXPECT_EQ(bound.reason, "1 core by affinity");
}

TEST_F(MachineTest, MemoryIsTheRestOfTheTightestLimit) {
  EXPECT_EQ(available_memory(root_).bytes, std::numeric_limits<std::int64_t>::max());
  write("proc/meminfo", "MemTotal:  9000 kB\nMemFree:  5 kB\nMemAvailable:    8000 kB\n");
  EXPECT_EQ(available_memory(root_).bytes, 8000 << 10);
  EXPECT_EQ(available_memory(root_).limit, "MemAvailable");

  unified();
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/step/memory.current", "70000\n");
  EXPECT_EQ(available_memory(root_).limit, "MemAvailable");
  write("sys/fs/cgroup/job/memory.max", "100000\n");
  write("sys/fs/cgroup/job/memory.current", "70000\n");
  EXPECT_EQ(available_memory(root_).bytes, 30000);
  EXPECT_EQ(available_memory(root_).limit, "memory.max of cgroup /job");
  // Page cache counts as free.
  write("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 20000\nactive_file 5000\n");
  EXPECT_EQ(available_memory(root_).bytes, 55000);
  write("sys/fs/cgroup/job/memory.current", "700000\n");
  EXPECT_EQ(available_memory(root_).bytes, 0);

  legacy();
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(available_memory(root_).limit, "MemAvailable");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  EXPECT_EQ(available_memory(root_).bytes, 4000);
  EXPECT_EQ(available_memory(root_).limit, "memory.limit_in_bytes of cgroup /");
}

TEST_F(MachineTest, ReadsTheNameOfTheProcessor) {
  EXPECT_EQ(processor_name(root_), "");
  write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t: fpu\n");
  EXPECT_EQ(processor_name(root_), "Some CPU @ 2.0GHz");
}

TEST(Machine, ReportsThisMachine) {
  EXPECT_GE(usable_cores().count, 1);
  EXPECT_GT(available_memory().bytes, 0);
  EXPECT_GT(physical_memory(), 0);
  EXPECT_NE(host_name(), "");
}

TEST(DefaultThreads, AreThoseOfOmpNumThreadsOrShareTheCores) {
  const auto threads_with = [](const char* variable) {
    ::setenv("OMP_NUM_THREADS", variable, 1);
    return error_of<UsageError>([] {
      const UsableCores threads = default_threads(2);
      throw UsageError("{} {}", threads.count, threads.reason);
    });
  };
  const UsableCores cores = usable_cores();
  EXPECT_EQ(threads_with("3"), "3 by OMP_NUM_THREADS");
  EXPECT_EQ(threads_with("3,2"), "3 by OMP_NUM_THREADS");
  EXPECT_EQ(threads_with(""),
            fmt::format("{} {}, shared by 2 ranks", std::max(1, cores.count / 2), cores.reason));
  for (const char* wrong : {"0", "-1", "many", "2x", "100000", ",2"}) {
    EXPECT_THAT(threads_with(wrong),
                testing::StartsWith(fmt::format("OMP_NUM_THREADS='{}' is no number", wrong)));
  }
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(default_threads(1).reason, cores.reason);
  EXPECT_EQ(default_threads(1000000).count, 1);
}

}  // namespace
}  // namespace phalanx
