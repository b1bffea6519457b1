// What crashes and full disks leave behind, and that the next save puts it right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "phalanx/checkpoint/checkpoint_fixture.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

// A process that dies before a step of the save: true when it died there, false when the save has
// no such step.
bool die_before(const std::string& doomed_step, const SaveOptions& options,
                const Manifest& manifest, std::span<const GlobalTensor> tensors) {
  const pid_t child = ::fork();
  if (child == 0) {
    SaveOptions dying = options;
    dying.before_step = [&](std::string_view step) {
      if (step == doomed_step) ::_exit(42);
    };
    save_checkpoint(dying, manifest, tensors);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

std::vector<std::string> steps_of(SaveOptions options, const Manifest& manifest,
                                  std::span<const GlobalTensor> tensors) {
  std::vector<std::string> steps;
  options.before_step = [&](std::string_view step) { steps.emplace_back(step); };
  save_checkpoint(options, manifest, tensors);
  return steps;
}

TEST_F(CheckpointTest, ACrashAtAnyStepLeavesALoadableLatest) {
  const TinyModel model(20);
  const SaveOptions options{.directory = save(), .retention = {.keep_last = 1}};
  const auto steps = steps_of(options, example_manifest(1), model.all());
  ASSERT_GE(steps.size(), 8U);
  bool in_place = false;
  for (const auto& step : steps) {
    SCOPED_TRACE(step);
    fs::remove_all(save());
    save_at(1, 10, 1);
    ASSERT_TRUE(die_before(step, options, example_manifest(2), model.all()));
    // Once it has its name it is the latest, whatever the tracker says.
    in_place = in_place || step == "sync directory";
    EXPECT_EQ(latest_base(), in_place ? 20 : 10);
    // The old one goes only after the new one is the latest.
    EXPECT_TRUE(fs::exists(save() / "iter_0000001"));
    // The next save cleans up.
    save_at(3, 30, 1);
    EXPECT_EQ(latest_base(), 30);
    EXPECT_THAT(names(), ElementsAre("iter_0000003", "latest_checkpointed_iteration.txt"));
  }
  EXPECT_TRUE(in_place);
}

TEST_F(CheckpointTest, ACrashAtTheFirstSave) {
  const TinyModel model(20);
  const SaveOptions options{.directory = save()};
  const auto steps = steps_of(options, example_manifest(1), model.all());
  bool in_place = false;
  for (const auto& step : steps) {
    SCOPED_TRACE(step);
    fs::remove_all(save());
    ASSERT_TRUE(die_before(step, options, example_manifest(2), model.all()));
    in_place = in_place || step == "sync directory";
    const auto reader = CheckpointReader::open_if_any(save());
    ASSERT_EQ(reader.has_value(), in_place);
    if (in_place) {
      EXPECT_EQ(latest_base(), 20);
    }
  }
}

// The only checkpoint of the directory is replaced by one of the same iteration.
class ReplaceTest : public CheckpointTest, public testing::WithParamInterface<bool> {};

TEST_P(ReplaceTest, ACrashAtAnyStepLosesNothing) {
  const TinyModel model(20);
  Manifest manifest = example_manifest(1);
  manifest.start = 2;
  const SaveOptions options{.directory = save(), .may_exchange = GetParam()};
  save_at(1, 10);
  const auto steps = steps_of(options, manifest, model.all());
  EXPECT_EQ(std::ranges::count(steps, "replace"), GetParam() ? 0 : 1);
  bool in_place = false;
  for (const auto& step : steps) {
    SCOPED_TRACE(step);
    fs::remove_all(save());
    save_at(1, 10);
    ASSERT_TRUE(die_before(step, options, manifest, model.all()));
    in_place = in_place || step == "sync directory";
    EXPECT_EQ(latest_base(), in_place ? 20 : 10);
    EXPECT_THAT(iterations(), ElementsAre(1));
    save_in_start(3, 2, 30);
    EXPECT_THAT(names(),
                ElementsAre("iter_0000001", "iter_0000002", "latest_checkpointed_iteration.txt"));
    fs::remove_all(save() / "iter_0000002");
    EXPECT_EQ(latest_base(), in_place ? 20 : 10);
  }
  EXPECT_TRUE(in_place);
}

TEST_P(ReplaceTest, NothingOfTheOldOneStays) {
  save_at(1, 10);
  save_checkpoint({.directory = save(), .may_exchange = GetParam()}, example_manifest(1),
                  TinyModel(20).all());
  EXPECT_EQ(latest_base(), 20);
  EXPECT_THAT(names(), ElementsAre("iter_0000001", "latest_checkpointed_iteration.txt"));
}

INSTANTIATE_TEST_SUITE_P(Exchange, ReplaceTest, testing::Bool(), [](const auto& exchange) {
  return exchange.param ? "InOneStep" : "InTwoSteps";
});

TEST_F(CheckpointTest, AnAsideCopyIsACheckpointUntilItIsReplaced) {
  save_at(1, 10);
  const auto aside = save() / aside_directory_name(2);
  fs::rename(save_at(2, 20), aside);
  EXPECT_EQ(latest_base(), 20);
  EXPECT_EQ(CheckpointReader::open(save()).directory(), aside);
  EXPECT_EQ(CheckpointReader::open(aside).manifest().iteration, 2);
  EXPECT_THAT(iterations(), ElementsAre(1, 2));
  EXPECT_EQ(directory_of_iteration(save(), 1), save() / "iter_0000001");
  EXPECT_EQ(directory_of_iteration(save(), 2), aside);
  EXPECT_EQ(directory_of_iteration(save(), 3), save() / "iter_0000003");
  // What broke under its name does not replace it, and is left for a person.
  fs::create_directories(save() / "iter_0000002");
  EXPECT_EQ(latest_base(), 20);
  save_at(3, 30);
  EXPECT_TRUE(fs::exists(aside));
  fs::remove(save() / "iter_0000002");
  save_at(4, 40, 0);
  EXPECT_FALSE(fs::exists(aside));
  EXPECT_THAT(iterations(), ElementsAre(1, 2, 3, 4));
}

TEST_F(CheckpointTest, LeftoversOfAKilledRunGo) {
  save_at(1);
  fs::create_directories(save() / "iter_0000002.tmp");
  put_file(save() / "iter_0000002.tmp" / "model.safetensors.tmp", "half");
  fs::create_directories(save() / staging_directory_name(2));
  fs::create_directories(save() / staging_directory_name(9));
  put_file(save() / "latest_checkpointed_iteration.txt.tmp", "2");
  put_file(save() / "latest_checkpointed_iteration.txt.tmp.0123456789abcdef", "2");
  EXPECT_EQ(CheckpointReader::open(save()).manifest().iteration, 1);
  save_at(3);
  EXPECT_THAT(names(),
              ElementsAre("iter_0000001", "iter_0000003", "latest_checkpointed_iteration.txt"));
}

// A limit on file sizes stands for a full disk: the write fails in the middle of a file.
TEST_F(CheckpointTest, AFailedWriteLeavesThePreviousCheckpoint) {
  save_at(1, 10);
  Arena arena("large", 1 << 20);
  const std::vector<GlobalTensor> large = {
      whole_tensor("w", arena.allocate(DType::kF32, {100000}))};
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 100000, .rlim_max = 100000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      save_checkpoint({.directory = save()}, example_manifest(2), large);
      ::_exit(1);
    } catch (const OutputError&) {
      ::_exit(42);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  EXPECT_EQ(latest_base(), 10);
  EXPECT_THAT(names(), ElementsAre("iter_0000001", "latest_checkpointed_iteration.txt"));
}

}  // namespace
}  // namespace phalanx
