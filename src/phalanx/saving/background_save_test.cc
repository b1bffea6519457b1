// Saves that go on while training goes on: what they write is what the states were when they began.

#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/disk/test_support.h"
#include "phalanx/rank/rank_folders.h"
#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/saving/run_saver.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::AlteringEngine;

// Writers wait before it until it is open.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

class BackgroundSaveTest : public RunTest {
 protected:
  static constexpr std::int64_t kLast = 4;

  // What tests do between the iterations of each rank.
  struct Hooks {
    std::function<EngineMaker(int rank)> engine_of = nullptr;
    std::function<void(int rank, std::int64_t iteration)> after_iteration = nullptr;
    std::function<void(int rank, std::int64_t iteration, RunSaver&)> poll = nullptr;
    std::chrono::milliseconds stalled_after = std::chrono::minutes(1);
    std::vector<std::int64_t> saves = {2};  // after these iterations
  };

  // Trains kLast iterations, saves some of them and, on leaving, the last one.
  void train(const TrainConfig& c, const Hooks& hooks) {
    const RunSetup setup(c);
    setup.directory->claim();
    LocalMailbox mailbox;
    run_local_ranks(setup.grids.dense.world_size(), {}, [&](Communicator& world) {
      const int number = world.rank();
      const RankCommunicators ranks(setup.grids, world);
      RankArenas arenas(setup.plan_of(number).bytes);
      arenas.folders = open_folders(setup.config.layout, setup.name, number);
      const auto backend = setup.device.choice().make_backend(1);
      Rank rank(setup.config, *setup.model, setup.programs, ranks, *backend, arenas);
      rank.initialise();
      const auto stream = setup.stream(SplitKind::kTrain, 0, ranks.coordinates);
      const BatchSource source = stream->source();
      StepTimers timers;
      RunSaver saver(setup.saved_run(), setup.save_target(), rank,
                     {.note =
                          [&](const RunNote& note) {
                            if (number == 0) notes_.push_back(note.text);
                          },
                      .timers = timers,
                      .times = [] { return std::vector<TimerRow>(); }},
                     {.mailbox = &mailbox,
                      .make = hooks.engine_of ? hooks.engine_of(number) : make_engine,
                      .stalled_after = hooks.stalled_after});
      RunState state;
      while (state.iteration < kLast) {
        ++state.iteration;
        rank.train_step({.lr = 1e-2, .adam_step = state.iteration}, source);
        if (hooks.poll) {
          hooks.poll(number, state.iteration, saver);
        } else {
          saver.poll(state.iteration);
        }
        if (hooks.after_iteration) hooks.after_iteration(number, state.iteration);
        if (std::ranges::count(hooks.saves, state.iteration) > 0) {
          saver.save(state, RunSaver::Occasion::kPeriodic);
        }
      }
      saver.save(state, RunSaver::Occasion::kLeaving);
      rank.finish_gather();
      check_high_water_of_snapshot(setup.plan_of(number), arenas);
    });
  }
  static void check_high_water_of_snapshot(const MemoryPlan& plan, const RankArenas& arenas) {
    EXPECT_EQ(arenas["snapshot"].high_water(), plan.bytes["snapshot"]);
  }

  TrainConfig config_of(const std::string& save, const Layout& layout, const char* flags,
                        bool in_files) const {
    TrainConfig c = with_flags(with_layout(config(save), layout), flags);
    c.layout.global_batch_size = 4 * layout.data;
    c.layout.ddp_bucket_size = 5000;  // shards begin and end amid parameters and rows
    if (in_files) c.layout.offload_optimizer_to = path("disk");
    if (in_files && layout.zero == 3) c.layout.offload_parameters_to = path("disk");
    return c;
  }
  CheckpointReader saved(const std::string& save, std::int64_t iteration) const {
    return CheckpointReader(fs::path(path(save)) / iteration_directory_name(iteration));
  }

  // Two ranks that save while training goes on, with room for this share of the states.
  TrainConfig two_ranks(double fraction) const {
    TrainConfig c = config_of("run", {.data = 2, .sharded = true}, "", false);
    c.run.async_save = true;
    c.run.snapshot_fraction = fraction;
    return c;
  }
  // The names in the save directory that begin like a checkpoint's.
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path("run"))) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("iter_")) names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
  }
  std::string all_notes() const {
    std::string text;
    for (const std::string& note : notes_) text += note + "\n";
    return text;
  }

  std::vector<std::string> notes_;
};

// The writer begins only after the next iteration's update: it must copy or wait.
TEST_F(BackgroundSaveTest, HasTheStatesOfItsIteration) {
  struct Case {
    Layout layout;
    const char* flags;
    bool in_files = false;
  };
  for (const auto& [layout, flags, in_files] :
       {Case{{}, ""}, Case{{}, "--bf16"}, Case{{.tensor = 2}, "--bf16 --no-save-optim"},
        Case{{.data = 3}, "--bf16"}, Case{{.data = 2, .sharded = true, .overlaps = true}, ""},
        Case{{.data = 2, .zero = 2}, "--bf16"}, Case{{.data = 2, .zero = 3}, ""},
        Case{{.data = 2, .pipeline = 2, .zero = 1}, "--bf16"},
        Case{{.data = 2, .zero = 2}, "--bf16", true}, Case{{.data = 2, .zero = 3}, "", true},
        Case{{.data = 2, .zero = 3}, "--bf16 --no-save-optim", true}}) {
    fs::remove_all(path("whole"));
    const TrainConfig whole = config_of("whole", layout, flags, in_files);
    train(whole, {});
    for (const double fraction : in_files ? std::vector{1.0, 0.0} : std::vector{1.0, 0.3}) {
      SCOPED_TRACE(fmt::format("t {} p {} d {} zero {} {} files {} fraction {}", layout.tensor,
                               layout.pipeline, layout.data, layout.zero, flags, in_files,
                               fraction));
      fs::remove_all(path("beside"));
      TrainConfig c = config_of("beside", layout, flags, in_files);
      c.run.async_save = true;
      c.run.snapshot_fraction = fraction;
      std::map<int, Gate> gates;
      for (int rank = 0; rank < c.layout.world_size; ++rank) gates[rank];
      train(c, {.engine_of = [&](int rank) -> EngineMaker {
                  return [&, rank](const StorageOptions& options, std::span<std::byte> memory) {
                    if (fraction == 1.0) {
                      gates.at(rank).pass();
                    } else {
                      std::this_thread::sleep_for(std::chrono::milliseconds(20));
                    }
                    return make_engine(options, memory);
                  };
                },
                .after_iteration =
                    [&](int rank, std::int64_t iteration) {
                      if (iteration == 3) gates.at(rank).open();
                    }});
      for (const std::int64_t iteration : {std::int64_t{2}, kLast}) {
        const auto found = diff_checkpoints(saved("whole", iteration), saved("beside", iteration));
        EXPECT_TRUE(found.tensors_equal()) << iteration << ": " << to_text(found);
        EXPECT_FALSE(saved("beside", iteration).manifest().parts.empty());
      }
    }
  }
}

// What is copied is written while the next iterations go on; what is not, before they do.
TEST_F(BackgroundSaveTest, AFullDiskOfOneRankEndsThatSaveAlone) {
  for (const int failing : {0, 1}) {
    notes_.clear();
    fs::remove_all(path("run"));
    train(two_ranks(1.0), {.engine_of = [&](int rank) -> EngineMaker {
            return [rank, failing, first = std::make_shared<bool>(true)](
                       const StorageOptions& options, std::span<std::byte> memory) {
              auto engine = std::make_unique<AlteringEngine>(make_engine(options, memory));
              if (rank == failing && std::exchange(*first, false)) {
                engine->on_completion = [](BlockCompletion& done) { done.result = -ENOSPC; };
              }
              return engine;
            };
          }});
    EXPECT_THAT(all_notes(),
                AllOf(HasSubstr("the checkpoint of iteration 2 could not be saved"),
                      HasSubstr(fmt::format("rank {}: ", failing)),
                      HasSubstr(fmt::format("part-{:05d}.bin", failing)),
                      HasSubstr("No space left on device"), HasSubstr("the run goes on")));
    EXPECT_THAT(checkpoints(), ElementsAre("iter_0000004"));
  }
}

// Nothing comes from a rank's file system any more: the save fails, with the rank's name, whether
// an update waits for it or nobody does.
TEST_F(BackgroundSaveTest, AFileSystemThatHangsIsNamed) {
  for (const double fraction : {1.0, 0.0}) {
    notes_.clear();
    fs::remove_all(path("run"));
    const auto gate = std::make_shared<Gate>();
    train(two_ranks(fraction), {.engine_of = [&](int rank) -> EngineMaker {
                                  return [rank, gate, first = std::make_shared<bool>(true)](
                                             const StorageOptions& options,
                                             std::span<std::byte> memory) {
                                    if (rank == 1 && std::exchange(*first, false)) gate->pass();
                                    return make_engine(options, memory);
                                  };
                                },
                                .stalled_after = std::chrono::milliseconds(400)});
    EXPECT_THAT(all_notes(), AllOf(HasSubstr("the checkpoint of iteration 2 could not be saved"),
                                   HasSubstr("rank 1: host "), HasSubstr("part-00001.bin"),
                                   HasSubstr("no byte was written for 0.4 s")));
    EXPECT_THAT(checkpoints(), ElementsAre("iter_0000004"));
    gate->open();
  }
}

TEST_F(BackgroundSaveTest, OneIsUnderWayAtATime) {
  for (const bool skips : {false, true}) {
    notes_.clear();
    fs::remove_all(path("run"));
    TrainConfig c = two_ranks(1.0);
    c.run.save_skip_if_busy = skips;
    std::map<int, Gate> gates;
    for (int rank = 0; rank < 2; ++rank) gates[rank];
    train(c, {.engine_of = [&](int rank) -> EngineMaker {
                return [&, rank](const StorageOptions& options, std::span<std::byte> memory) {
                  gates.at(rank).pass();
                  return make_engine(options, memory);
                };
              },
              .after_iteration =
                  [&](int rank, std::int64_t iteration) {
                    if (iteration == (skips ? 4 : 3)) gates.at(rank).open();
                  },
              .saves = {2, 3, 4}});
    if (skips) {
      EXPECT_THAT(all_notes(), HasSubstr("the checkpoint of iteration 3 is left out: that of "
                                         "iteration 2 is still being saved"));
      EXPECT_THAT(checkpoints(), ElementsAre("iter_0000002", "iter_0000004"));
    } else {
      EXPECT_THAT(checkpoints(), ElementsAre("iter_0000002", "iter_0000003", "iter_0000004"));
    }
    // Leaving waits for the save of the last iteration, and does not save it again.
    EXPECT_EQ(std::ranges::count(notes_, fmt::format("saving checkpoint at iteration {:7d} to {}",
                                                     4, path("run"))),
              1);
  }
}

// The ranks hear of the end of a save at different moments, also just before the next one.
TEST_F(BackgroundSaveTest, AllRanksDecideTogetherWhetherASaveIsLeftOut) {
  TrainConfig c = two_ranks(1.0);
  c.run.save_skip_if_busy = true;
  train(c, {.poll =
                [](int rank, std::int64_t iteration, RunSaver& saver) {
                  while (rank == 0 && saver.is_under_way()) saver.poll(iteration);
                },
            .saves = {2, 3}});
  EXPECT_THAT(checkpoints(), testing::IsSupersetOf({"iter_0000002", "iter_0000004"}));
}

// A rank that fails meanwhile ends the run at once; what is half written goes with the next save.
TEST_F(BackgroundSaveTest, ADyingRunLeavesNothingBehind) {
  std::map<int, Gate> gates;
  for (int rank = 0; rank < 2; ++rank) gates[rank];
  const auto engine_of = [&](int rank) -> EngineMaker {
    return [&, rank](const StorageOptions& options, std::span<std::byte> memory) {
      gates.at(rank).pass();
      return make_engine(options, memory);
    };
  };
  EXPECT_THAT(error_of(ErrorCode::kBadData,
                       [&] {
                         train(two_ranks(1.0), {.engine_of = engine_of,
                                                .after_iteration = [&](int rank, std::int64_t at) {
                                                  if (at < 3) return;
                                                  for (auto& [r, gate] : gates) gate.open();
                                                  if (rank == 1) throw DataError("the end");
                                                }});
                       }),
              HasSubstr("the end"));
  TrainConfig c = two_ranks(1.0);
  c.run.overwrite = true;
  train(c, {.engine_of = engine_of});
  EXPECT_THAT(checkpoints(), ElementsAre("iter_0000002", "iter_0000004"));
}

// Whole runs that save after every iteration, also under a schedule whose stages update at
// different times.
TEST_F(BackgroundSaveTest, RunsSaveTheSameBeside) {
  for (const auto& [layout, flags] :
       {std::pair(Layout{.pipeline = 2, .schedule = "pipedream-2bw"},
                  "--bf16 --clip-grad 0 --untie-embeddings-and-output-weights"),
        std::pair(Layout{.data = 2, .zero = 3}, "--fp16 --initial-loss-scale 1024")}) {
    for (const bool beside : {false, true}) {
      TrainConfig c = with_flags(with_layout(config(beside ? "beside" : "whole"), layout), flags);
      c.run.save_interval = 1;
      c.run.keep_last = 100;
      c.run.async_save = beside;
      if (beside) c.run.snapshot_fraction = 0.2;
      RunTest::train(c);
    }
    EXPECT_EQ(iterations("beside"), iterations("whole"));
    EXPECT_EQ(iterations("beside").size(), 6U);
    for (const std::int64_t iteration : iterations("whole")) {
      const auto found = diff_checkpoints(saved("whole", iteration), saved("beside", iteration));
      EXPECT_TRUE(found.tensors_equal()) << iteration << ": " << to_text(found);
    }
    EXPECT_EQ(losses("beside"), losses("whole"));
    // What an iteration stood for it is told.
    const auto lines = training_metrics("beside");
    EXPECT_FALSE(lines[0].contains("save_bytes"));
    EXPECT_GT(lines[1].at("save_bytes").get<std::int64_t>(), 0);
    EXPECT_GE(lines[1].at("snapshot_wait_s").get<double>(), 0.0);
    for (const char* name : {"beside", "whole"}) fs::remove_all(path(name));
  }
}

}  // namespace
}  // namespace phalanx
