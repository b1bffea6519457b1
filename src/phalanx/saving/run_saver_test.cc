#include "phalanx/saving/run_saver.h"

#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/directory_lock.h"
#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// On one rank, and on two, where the first one writes, or each its part.
class RunSaverTest : public RunTest, public testing::WithParamInterface<std::tuple<Layout, bool>> {
 protected:
  // Saves iterations 1, 2, ... `last` of a run with the drawn weights; the last one on leaving. All
  // ranks end in the same way.
  void save_iterations(std::int64_t last) {
    const auto& [layout, in_parts] = GetParam();
    TrainConfig c = with_flags(with_layout(config("run"), layout), "--keep-last 100");
    c.run.ckpt_fully_parallel_save = in_parts;
    const RunSetup setup(c);
    setup.directory->claim();
    for (const int iteration : blocked_) {
      // Where something else lies under a checkpoint's name, it cannot be saved.
      fs::create_directories(fs::path(c.run.save) / iteration_directory_name(iteration));
    }
    LocalMailbox mailbox;
    run_local_ranks(setup.grids.dense.world_size(), {}, [&](Communicator& world) {
      const RankCommunicators ranks(setup.grids, world);
      RankArenas arenas(setup.plan_of(world.rank()).bytes);
      const auto backend = setup.device.choice().make_backend(1);
      Rank rank(setup.config, *setup.model, setup.programs, ranks, *backend, arenas);
      rank.initialise();
      RunState state;
      StepTimers timers;
      RunSaver saver(setup.saved_run(), setup.save_target(), rank,
                     {.note = [](const RunNote&) {},
                      .timers = timers,
                      .times = [] { return std::vector<TimerRow>(); }},
                     {.mailbox = &mailbox});
      for (state.iteration = 1; state.iteration <= last; ++state.iteration) {
        saver.save(state, state.iteration == last ? RunSaver::Occasion::kLeaving
                                                  : RunSaver::Occasion::kPeriodic);
      }
      --state.iteration;
      if (!at_the_end_) return;
      if (world.rank() == 0) at_the_end_();
      // All is saved: what is left to do is to read it back, and to remove what is older.
      saver.save(state, RunSaver::Occasion::kLeaving);
    });
  }
  std::string failure(std::int64_t last) {
    return error_of(ErrorCode::kIo, [&] { save_iterations(last); });
  }

  std::vector<int> blocked_;
  std::function<void()> at_the_end_;  // before the last look at what was saved
};

// What lies at the path then may be another run's.
TEST_P(RunSaverTest, NothingIsRemovedAtTheEndFromAnothersDirectory) {
  const auto files_of = [](const fs::path& directory) {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      names.insert(entry.path().lexically_relative(directory).string());
    }
    return names;
  };
  at_the_end_ = [&] {
    fs::rename(path("run"), path("moved"));
    fs::copy(path("moved"), path("run"), fs::copy_options::recursive);
  };
  EXPECT_THAT(failure(3), HasSubstr("moved, removed or replaced"));
  EXPECT_EQ(files_of(path("run")), files_of(path("moved")));
}

TEST_P(RunSaverTest, AFailedCheckpointDoesNotEndTheRun) {
  blocked_ = {2, 3, 5, 6};
  save_iterations(7);
  EXPECT_THAT(iterations("run"), ElementsAre(1, 4, 7));
  CheckpointReader::open(path("run")).verify_all();
}

TEST_P(RunSaverTest, ThreeFailuresInARowEndIt) {
  blocked_ = {3, 4, 5};
  EXPECT_THAT(failure(9), testing::AllOf(HasSubstr("iteration 5"), HasSubstr("iter_0000005"),
                                         HasSubstr("last good one"), HasSubstr("iter_0000002")));
  EXPECT_THAT(iterations("run"), ElementsAre(1, 2));
}

TEST_P(RunSaverTest, TheLastOneMustSucceed) {
  blocked_ = {3};
  EXPECT_THAT(failure(3), HasSubstr("iter_0000002"));
  EXPECT_THAT(iterations("run"), ElementsAre(1, 2));
  blocked_ = {1};
  EXPECT_THAT(failure(1), HasSubstr("there is no checkpoint of this run"));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, RunSaverTest,
    testing::Combine(testing::Values(Layout{.name = "one"}, Layout{.name = "tensor", .tensor = 2},
                                     Layout{.name = "pipeline", .pipeline = 2}),
                     testing::Bool()),
    [](const auto& chosen) {
      return std::string(std::get<0>(chosen.param).name) +
             (std::get<1>(chosen.param) ? "Parts" : "Whole");
    });

using RunSaverOneTest = RunTest;

// A disk that is full for metrics.jsonl.
TEST_F(RunSaverOneTest, MetricsThatCannotBeWrittenAreLeftOut) {
  for (const bool is_open : {true, false}) {
    TrainConfig c = config(is_open ? "open" : "closed");
    fs::create_directories(c.run.save);
    const fs::path metrics = fs::path(c.run.save) / "metrics.jsonl";
    if (is_open) {
      fs::create_symlink("/dev/full", metrics);
    } else {
      fs::create_directory(metrics);
    }
    c.run.load = c.run.save;
    train(c);
    EXPECT_EQ(CheckpointReader::open(c.run.save).manifest().iteration, 6);
  }
}

// A run does not keep the files of the loaded checkpoint open: removing them frees their space.
TEST_F(RunSaverOneTest, TheLoadedCheckpointIsLetGo) {
  TrainConfig c = with_flags(config("run"), "--exit-interval 2 --train-iters 100000");
  train(c);
  c.run.load = c.run.save;
  c.run.exit_interval = 0;
  std::atomic<int> signal{0};
  std::thread run(
      [&] { EXPECT_EQ(pretrain(c, [&signal] { return signal.load(); }), RunEnd::kPreempted); });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (training_metrics("run").size() < 4 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (const auto& descriptor : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    EXPECT_THAT(fs::read_symlink(descriptor, gone).string(),
                testing::Not(HasSubstr("safetensors")));
  }
  signal = SIGTERM;
  run.join();
}

// A run whose directory is moved away or replaced writes nothing more and says so.
TEST_F(RunSaverOneTest, AnothersDirectoryIsNotWrittenTo) {
  for (const char* what : {"moved", "replaced", "unlocked", "removed"}) {
    TrainConfig c = with_flags(config("run"), "--save-interval 2 --train-iters 100000");
    fs::remove_all(path("run"));
    fs::remove_all(path("moved"));
    std::optional<DirectoryLock> other;
    const std::string happens = what;
    const auto take_away = [&] {
      if (happens == "unlocked") {
        fs::remove(fs::path(path("run")) / kLockName);
      } else if (happens == "removed") {
        fs::remove_all(path("run"));
      } else {
        fs::rename(path("run"), path("moved"));
      }
      if (happens == "replaced") other.emplace(path("run"));
    };
    bool is_done = false;
    try {
      pretrain(c, [&] {
        const fs::path saved = fs::path(path("run")) / iteration_directory_name(4);
        if (!is_done && fs::exists(saved)) {
          take_away();
          is_done = true;
        }
        return 0;
      });
      ADD_FAILURE() << "it went on: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo) << what;
      EXPECT_THAT(error.what(), HasSubstr("--save " + path("run"))) << what;
    }
    EXPECT_TRUE(is_done);
    if (happens == "replaced") {
      EXPECT_THAT(saved_checkpoints(path("run")), testing::IsEmpty());
      EXPECT_FALSE(fs::exists(path("run/report.html")));
    } else if (happens != "unlocked") {
      EXPECT_FALSE(fs::exists(path("run"))) << what;
    }
  }
}

}  // namespace
}  // namespace phalanx
