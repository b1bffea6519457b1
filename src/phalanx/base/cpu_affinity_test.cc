#include "phalanx/base/cpu_affinity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using Cores = std::vector<int>;

Cores numbers(int count) {
  Cores cores(static_cast<std::size_t>(count));
  std::iota(cores.begin(), cores.end(), 0);
  return cores;
}

TEST(CpuAffinity, RanksShareOutAllCores) {
  const Cores machine = numbers(64);  // two sockets of 32
  EXPECT_EQ(cores_text(cores_of_rank(machine, 2, 0, 32)), "0-31");
  EXPECT_EQ(cores_text(cores_of_rank(machine, 2, 1, 32)), "32-63");
  EXPECT_EQ(cores_text(cores_of_rank(machine, 8, 4, 8)), "32-39");
  // If cores do not divide evenly, every core is used and every rank has enough.
  Cores all;
  for (int rank = 0; rank < 3; ++rank) {
    const Cores mine = cores_of_rank(machine, 3, rank, 21);
    EXPECT_GE(mine.size(), 21U);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  EXPECT_EQ(all, machine);
}

// Binds nothing on a machine that also runs something else.
TEST(CpuAffinity, BindsNothingWithIdleOrMissingCores) {
  EXPECT_EQ(cores_of_rank(numbers(2), 1, 0, 1), Cores{});
  EXPECT_EQ(cores_of_rank(numbers(2), 1, 0, 2), Cores{});
  EXPECT_EQ(cores_of_rank(numbers(64), 2, 0, 16), Cores{});
  EXPECT_EQ(cores_of_rank(numbers(64), 2, 0, 33), Cores{});
  EXPECT_EQ(cores_of_rank(numbers(2), 4, 3, 1), Cores{});
  EXPECT_EQ(cores_of_rank(Cores{}, 2, 0, 1), Cores{});
}

TEST(CpuAffinity, CoresAreWrittenAsRanges) {
  EXPECT_EQ(cores_text(Cores{}), "");
  EXPECT_EQ(cores_text(Cores{5}), "5");
  EXPECT_EQ(cores_text(Cores{8, 0, 64, 1, 2}), "0-2,8,64");
}

// Hyper-threads of a core and cores of a node are adjacent, whatever their numbers are.
TEST(CpuAffinity, NeighboursAreSideBySide) {
  const Cores allowed = cores_of_thread();
  if (allowed.size() < 2) GTEST_SKIP() << "one core";
  std::string name = (fs::temp_directory_path() / "phalanx_affinity_XXXXXX").string();
  PHALANX_CHECK(::mkdtemp(name.data()) != nullptr, "cannot make {}", name);
  const fs::path root = name;
  const auto write = [&](const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  Cores sorted = allowed;
  std::ranges::sort(sorted);
  EXPECT_EQ(cores_of_thread(root), sorted);
  // The highest core belongs to node 0, the others to node 1.
  write("sys/devices/system/node/online", "0-1\n");
  write("sys/devices/system/node/node0/cpulist", std::to_string(sorted.back()) + "\n");
  write("sys/devices/system/node/node1/cpulist",
        cores_text(std::span(sorted).first(sorted.size() - 1)) + "\n");
  Cores turned = {sorted.back()};
  turned.insert(turned.end(), sorted.begin(), sorted.end() - 1);
  EXPECT_EQ(cores_of_thread(root), turned);
  fs::remove_all(root);
}

TEST(CpuAffinity, ThreadsInheritTheBinding) {
  const Cores before = cores_of_thread();
  if (before.empty()) GTEST_SKIP() << "the system does not tell";
  const Cores last = {before.back()};
  std::jthread([&] {
    ASSERT_TRUE(bind_thread(last));
    EXPECT_EQ(cores_of_thread(), last);
    std::jthread([&] { EXPECT_EQ(cores_of_thread(), last); });
  }).join();
  EXPECT_EQ(cores_of_thread(), before);
  EXPECT_FALSE(bind_thread({}));
}

}  // namespace
}  // namespace phalanx
