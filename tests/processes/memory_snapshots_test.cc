// Restarts from memory: ranks are killed at random moments, also while they write a snapshot, and
// the run ends with the bits of one that nobody disturbed. And a checkpoint that one process finds
// damaged: all take the one before.

#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <string>

#include "processes_test.h"

namespace phalanx::processes {
namespace {

class MemorySnapshots : public ProcessesTest {
 protected:
  static std::string run_flags(const std::string& layout, const std::string& save) {
    return fmt::format(
        "{}--train-iters {} --lr-decay-iters {} --eval-iters 0 --save-interval 1000000 "
        "--bf16 {} --save {}",
        model(), kIterations, kIterations, layout, save);
  }
  // The iterations from which the launcher says that it began again.
  static std::vector<int> restarts(const ChildProcess& launcher) {
    static const std::regex line(
        R"(phalanx launch: restart \d+ of \d+, from the checkpoint of iteration (\d+))");
    const std::string text = launcher.err();
    std::vector<int> found;
    for (std::sregex_iterator i(text.begin(), text.end(), line), end; i != end; ++i) {
      found.push_back(std::stoi((*i)[1]));
    }
    return found;
  }

  static constexpr int kIterations = 110;
};

TEST_F(MemorySnapshots, WhoIsKilledCostsFewIterations) {
  prepare();
  struct World {
    int ranks;
    std::string layout;
    int interval;
  };
  const std::vector<World> worlds = {
      {2, "--zero-stage 1", 1},
      {4, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", 4},
      {3, "--zero-stage 3 --global-batch-size 6", 1}};
  const char* const nightly = std::getenv("PHALANX_NIGHTLY");
  const int rounds = nightly != nullptr && std::string_view(nightly) == "1" ? 20 : 1;
  std::mt19937 random(20261126);
  for (std::size_t w = 0; w < worlds.size(); ++w) {
    const auto& [ranks, layout, interval] = worlds[w];
    const std::string straight = fmt::format("straight_{}", w);
    const std::string on_node = fmt::format("--nproc-per-node {} --max-restarts 100", ranks);
    ChildProcess undisturbed = launch(straight, on_node, run_flags(layout, straight));
    expect_end(undisturbed, 0);
    for (int round = 0; round < rounds; ++round) {
      const std::string save = fmt::format("run_{}_{}", w, round);
      SCOPED_TRACE(fmt::format("{} ranks, {}, round {}", ranks, layout, round));
      ChildProcess launcher =
          launch(save, on_node,
                 run_flags(layout, save) + fmt::format(" --memory-snapshot-interval {}", interval));
      std::size_t kills = 0;
      for (int from = 10; from < kIterations - 30; from += 60) {
        const int wanted = from + static_cast<int>(random() % 30);
        const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
        int seen = 0;
        ASSERT_TRUE(eventually(kLimit, [&] {
          seen = iterations(save);
          return seen >= wanted;
        })) << launcher.err();
        const pid_t pid = pid_of_rank(run_mark(), victim);
        if (pid == 0 || ::kill(pid, SIGKILL) != 0) break;  // the run is over
        ++kills;
        ASSERT_TRUE(eventually(kLimit, [&] { return restarts(launcher).size() == kills; }))
            << launcher.err();
        EXPECT_GE(restarts(launcher).back(), seen - interval) << launcher.err();
      }
      expect_end(launcher, 0);
      EXPECT_GE(kills, 1U);
      EXPECT_THAT(launcher.err() + read(save + ".out"),
                  HasSubstr("goes on from a snapshot in memory"));
      EXPECT_EQ(digest(save), digest(straight));
      EXPECT_EQ(results(save), results(straight));
      if (HasFailure()) return;
    }
  }
  expect_clean();
}

// The memory is the launcher's: it is gone with it, whatever has ended it.
TEST_F(MemorySnapshots, TheMemoryEndsWithTheLauncher) {
  prepare();
  // The memory files that a process has open. Other runs of this machine have theirs.
  const auto files_of = [](const std::filesystem::path& process) {
    std::set<ino_t> files;
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(process / "fd", error)) {
      const auto target = std::filesystem::read_symlink(file.path(), error).string();
      struct stat status {};
      if (target.starts_with("/memfd:phalanx-snapshot") &&
          ::stat(file.path().c_str(), &status) == 0) {
        files.insert(status.st_ino);
      }
    }
    return files;
  };
  ChildProcess launcher =
      launch("run", "--nproc-per-node 2", endless() + "--save run --memory-snapshot-interval 1");
  ASSERT_TRUE(has_begun("run")) << launcher.err();
  const std::set<ino_t> files = files_of("/proc/" + std::to_string(launcher.pid()));
  EXPECT_EQ(files.size(), 4U);
  ::kill(launcher.pid(), SIGKILL);
  EXPECT_TRUE(eventually(kLimit, [&] {
    std::error_code error;
    for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
      for (const ino_t file : files_of(process.path())) {
        if (files.contains(file)) return false;
      }
    }
    return true;
  }));
}

TEST_F(MemorySnapshots, WithoutTheLauncherThereIsNone) {
  prepare();
  expect_error(
      "pretrain gpt " + model() + "--save run --save-interval 4 --memory-snapshot-interval 2", 78,
      "start the run with `phalanx launch`");
}

TEST_F(MemorySnapshots, DamageThatOneProcessFindsMakesAllTakeTheCheckpointBefore) {
  prepare();
  const std::string flags =
      model() + "--zero-stage 1 --eval-iters 0 --save-interval 2 --ckpt-fully-parallel-save ";
  ChildProcess straight = launch("straight", "--nproc-per-node 2", flags + "--save straight");
  expect_end(straight, 0);
  ChildProcess first =
      launch("first", "--nproc-per-node 2", flags + "--save run --exit-interval 4");
  expect_end(first, 0);
  const auto part = directory_ / "run/iter_0000004/part-00001.bin";
  {
    std::fstream file(part, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    file.put('\x55');
    file.put('\x54');
    ASSERT_TRUE(file.good()) << part;
  }
  ChildProcess then = launch("then", "--nproc-per-node 2", flags + "--save run --load run");
  expect_end(then, 0);
  EXPECT_THAT(then.err(), AllOf(HasSubstr("part-00001.bin: block 0 is damaged"),
                                HasSubstr("(found by rank 1); taking run/iter_0000002")));
  EXPECT_EQ(digest("run"), digest("straight"));
  EXPECT_EQ(results("run"), results("straight"));
}

}  // namespace
}  // namespace phalanx::processes
