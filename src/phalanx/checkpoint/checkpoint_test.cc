// Writer and reader together: round trips, damage, and what a crash leaves behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <random>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/checkpoint/hash.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() { set_log_level(LogLevel::kError); }
  ~CheckpointTest() override { set_log_level(LogLevel::kInfo); }

  fs::path save() const { return directory_.path() / "save"; }
  fs::path save_at(std::int64_t iteration, float base = 0, int keep_last = 3) const {
    return save_checkpoint({.directory = save(), .keep_last = keep_last},
                           example_manifest(iteration), TinyModel(base).all());
  }
  // The base that the model of the latest checkpoint was made with.
  float latest_base() const {
    Arena arena("loaded", 4096);
    const auto target =
        whole_tensor("embedding.word_embeddings.weight", arena.allocate(DType::kF32, {5, 4}));
    CheckpointReader::open(save()).read(target);
    return target.local.span<float>()[0];
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(save())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  TemporaryDirectory directory_{"checkpoint"};
};

template <typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(CheckpointTest, RoundTrip) {
  const auto directory = save_at(1000, 5);
  EXPECT_EQ(directory, save() / "iter_0001000");
  EXPECT_EQ(read_file(save() / "latest_checkpointed_iteration.txt"), "1000");
  EXPECT_THAT(names(), ElementsAre("iter_0001000", "latest_checkpointed_iteration.txt"));

  for (const auto& path : {save(), fs::path(save().string() + "/"), directory}) {
    const auto reader = CheckpointReader::open(path);
    EXPECT_EQ(reader.directory(), directory);
    EXPECT_TRUE(reader.has_optimizer());
    Manifest expected = example_manifest(1000);
    expected.phalanx_version = PHALANX_VERSION;
    expected.files = reader.manifest().files;
    expected.tensors = reader.manifest().tensors;
    EXPECT_EQ(reader.manifest(), expected);
    EXPECT_EQ(reader.manifest().tensors.size(), 6U);
    reader.verify_all();
  }
}

TEST_F(CheckpointTest, TensorsComeBackWithoutTheirPadding) {
  save_at(1, 5);
  const auto reader = CheckpointReader::open(save());
  const auto* entry = reader.find("embedding.word_embeddings.weight");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->shape, (Shape{5, 4}));
  EXPECT_EQ(reader.bytes(*entry).size(), 80U);

  // Into another padding than it was saved from.
  Arena arena("loaded", 1 << 14);
  const auto spec = whole_parameter(entry->name, {5, 4}, DType::kF32, {}, /*padded_rows=*/6);
  for (const std::string_view prefix : {std::string_view(), kExpAvgPrefix, kExpAvgSqPrefix}) {
    const float base = prefix.empty() ? 5.0F : prefix == kExpAvgPrefix ? 1005.0F : 2005.0F;
    const auto target = global_tensor(spec, filled(arena, {6, 4}, -100), prefix);
    reader.read(target);
    const auto values = target.local.span<float>();
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(i)], base + static_cast<float>(i));
    for (int i = 20; i < 24; ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(i - 100));
  }
}

TEST_F(CheckpointTest, ATypeConvertsOnlyWhenAsked) {
  save_at(1, 5);
  const auto reader = CheckpointReader::open(save());
  Arena arena("loaded", 4096);
  const auto target =
      whole_tensor("decoder.final_layernorm.bias", arena.allocate(DType::kBF16, {4}));
  EXPECT_THAT(message_of([&] { reader.read(target); }),
              HasSubstr("is f32, the model asks for bf16"));
  EXPECT_THROW(reader.read(target), ConfigError);
  reader.read(target, DTypeMatch::kConvert);
  EXPECT_EQ(to_float(target.local.span<bfloat16>()[3]), 108);
  const auto integers =
      whole_tensor("decoder.final_layernorm.bias", arena.allocate(DType::kI32, {4}));
  EXPECT_THROW(reader.read(integers, DTypeMatch::kConvert), ConfigError);
}

TEST_F(CheckpointTest, AnotherModelIsAConfigurationError) {
  save_at(1);
  const auto reader = CheckpointReader::open(save());
  Arena arena("loaded", 4096);
  const auto read = [&](const char* name, const Shape& shape) {
    return message_of([&] { reader.read(whole_tensor(name, arena.allocate(DType::kF32, shape))); });
  };
  EXPECT_THAT(read("decoder.final_layernorm.bias", {5}),
              HasSubstr("decoder.final_layernorm.bias is [4], the model asks for [5]"));
  EXPECT_THAT(read("decoder.layers.0.mlp.linear_fc1.bias", {4}),
              HasSubstr("no tensor decoder.layers.0.mlp.linear_fc1.bias"));
}

TEST_F(CheckpointTest, WeightsOnly) {
  save_checkpoint({.directory = save()}, example_manifest(0), TinyModel().weights());
  EXPECT_FALSE(fs::exists(save() / "iter_0000000" / "optimizer.safetensors"));
  const auto reader = CheckpointReader::open(save());
  EXPECT_FALSE(reader.has_optimizer());
  EXPECT_EQ(reader.find("optimizer.exp_avg.decoder.final_layernorm.bias"), nullptr);
  EXPECT_EQ(latest_base(), 0);
}

TEST_F(CheckpointTest, IncompleteTensorsAreNotSaved) {
  Arena arena("test", 4096);
  GlobalTensor half = whole_tensor("w", filled(arena, {2, 2}, 0));
  half.boxes[0].rows = 1;
  EXPECT_THROW(save_checkpoint({.directory = save()}, {}, {{half}}), InternalError);
  const std::vector<GlobalTensor> twice(2, whole_tensor("w", filled(arena, {2, 2}, 0)));
  EXPECT_THROW(save_checkpoint({.directory = save()}, {}, twice), InternalError);
  EXPECT_FALSE(fs::exists(save()));
}

TEST_F(CheckpointTest, AManifestThatCouldNotBeReadIsNotSaved) {
  save_at(1, 10);
  Manifest manifest = example_manifest(2);
  manifest.consumed_train_samples = -1;
  EXPECT_THROW(save_checkpoint({.directory = save()}, manifest, TinyModel(20).all()), DataError);
  EXPECT_EQ(latest_base(), 10);
  EXPECT_THAT(names(), ElementsAre("iter_0000001", "latest_checkpointed_iteration.txt"));
}

TEST_F(CheckpointTest, ParentsAreMade) {
  const auto deep = save() / "a" / "b";
  save_checkpoint({.directory = deep}, example_manifest(7), TinyModel().weights());
  EXPECT_EQ(CheckpointReader::open(deep).manifest().iteration, 7);
  put_file(save() / "file", "x");
  EXPECT_THROW(save_checkpoint({.directory = save() / "file"}, {}, {}), OutputError);
  EXPECT_THROW(save_checkpoint({.directory = save() / "file" / "c"}, {}, {}), OutputError);
}

// --- Keeping and replacing

TEST_F(CheckpointTest, KeepLast) {
  for (std::int64_t iteration = 1; iteration <= 5; ++iteration) save_at(iteration, 0, 3);
  EXPECT_THAT(saved_iterations(save()), ElementsAre(3, 4, 5));
  save_at(6, 0, 0);
  EXPECT_THAT(saved_iterations(save()), ElementsAre(3, 4, 5, 6));
  save_at(7, 0, 1);
  EXPECT_THAT(saved_iterations(save()), ElementsAre(7));
  EXPECT_THAT(names(), ElementsAre("iter_0000007", "latest_checkpointed_iteration.txt"));
}

TEST_F(CheckpointTest, ARunThatWentBackKeepsItsOwnCheckpoints) {
  for (const std::int64_t iteration : {100, 200, 300}) save_at(iteration, 1, 0);
  save_at(150, 2, 2);
  // 200 and 300 are later than what was saved; 100 is one of the two last up to 150.
  EXPECT_THAT(saved_iterations(save()), ElementsAre(100, 150, 200, 300));
  EXPECT_EQ(latest_base(), 2);
  save_at(200, 3, 2);
  EXPECT_THAT(saved_iterations(save()), ElementsAre(150, 200, 300));
  EXPECT_EQ(latest_base(), 3);
  EXPECT_THAT(names(), Each(testing::Not(HasSubstr(".tmp"))));
}

TEST_F(CheckpointTest, WhatIsNotACheckpointStays) {
  fs::create_directories(save() / "iter_0000001" / "mp_rank_00");
  fs::create_directories(save() / "iter_2");
  fs::create_directories(save() / "notes.tmp");
  put_file(save() / "metrics.jsonl", "{}");
  for (const std::int64_t iteration : {2, 3}) save_at(iteration, 0, 1);
  EXPECT_THAT(names(),
              ElementsAre("iter_0000001", "iter_0000003", "iter_2",
                          "latest_checkpointed_iteration.txt", "metrics.jsonl", "notes.tmp"));
  EXPECT_THAT(message_of([&] { save_at(1); }), HasSubstr("not a checkpoint of Phalanx"));
}

TEST_F(CheckpointTest, DirectoryNames) {
  EXPECT_EQ(iteration_directory_name(1000), "iter_0001000");
  EXPECT_EQ(iteration_directory_name(123456789), "iter_123456789");
  for (const std::int64_t iteration : {0, 7, 9999999, 10000000}) {
    EXPECT_EQ(iteration_of_directory_name(iteration_directory_name(iteration)), iteration);
    EXPECT_TRUE(is_staging_directory_name(staging_directory_name(iteration)));
  }
  for (const auto* name : {"iter_", "iter_12", "iter_00000012", "iter_-000012", "iter_000001x",
                           "iter_99999999999999999999", "iter_0000012.tmp", "release", ""}) {
    EXPECT_FALSE(iteration_of_directory_name(name)) << name;
  }
  EXPECT_FALSE(is_staging_directory_name("iter_0000012"));
  EXPECT_FALSE(is_staging_directory_name("iter_12.tmp"));
}

// --- What is missing or damaged

TEST_F(CheckpointTest, NoTrackerMeansNoCheckpoint) {
  EXPECT_FALSE(CheckpointReader::open_if_any(save()));
  EXPECT_THROW(CheckpointReader::open(save()), InputMissingError);
  EXPECT_THAT(missing_tracker_message(save()), HasSubstr("latest_checkpointed_iteration.txt"));
  save_at(3);
  fs::remove(save() / kTrackerName);
  EXPECT_FALSE(CheckpointReader::open_if_any(save()));
  EXPECT_TRUE(CheckpointReader::open_if_any(save() / "iter_0000003"));
  EXPECT_THROW(CheckpointReader::open_if_any(save() / "iter_0000004"), InputMissingError);
  fs::create_directories(save() / "iter_0000004" / "mp_rank_00");
  EXPECT_THAT(message_of([&] { CheckpointReader::open(save() / "iter_0000004"); }),
              HasSubstr("not a checkpoint of Phalanx"));
}

TEST_F(CheckpointTest, ATrackerWithoutItsDirectory) {
  save_at(1, 10);
  save_at(2, 20);
  save_at(3, 30);
  fs::remove_all(save() / "iter_0000002");
  put_file(save() / kTrackerName, "2\n");
  EXPECT_EQ(latest_base(), 10);  // not 30: that is another run's future
  fs::remove_all(save() / "iter_0000001");
  EXPECT_THAT(message_of([&] { CheckpointReader::open(save()); }),
              AllOf(HasSubstr("iter_0000002: no such checkpoint directory"),
                    HasSubstr("no older checkpoint")));
}

TEST_F(CheckpointTest, ADamagedTracker) {
  save_at(1, 10);
  save_at(2, 20);
  for (const auto* text : {"", "\n", "x", "-1", "2.0", "2 3", "99999999999999999999", "0x2"}) {
    put_file(save() / kTrackerName, text);
    EXPECT_EQ(latest_base(), 20) << text;
  }
  put_file(save() / kTrackerName, " 0000001\r\n");
  EXPECT_EQ(latest_base(), 10);
  fs::remove_all(save() / "iter_0000001");
  fs::remove_all(save() / "iter_0000002");
  put_file(save() / kTrackerName, "");
  EXPECT_THAT(message_of([&] { CheckpointReader::open(save()); }),
              HasSubstr("does not hold an iteration number"));
}

TEST_F(CheckpointTest, ADamagedCheckpointGivesWayToTheOneBefore) {
  save_at(1, 10);
  const auto damage = [&](auto action) {
    const auto latest = save_at(2, 20);
    action(latest);
    EXPECT_EQ(latest_base(), 10);
    // Asked for by name, there is no way out.
    EXPECT_THROW(CheckpointReader::open(latest), Error);
  };
  damage([](const fs::path& d) { fs::remove(d / kManifestName); });
  fs::remove_all(save() / "iter_0000002");
  damage([](const fs::path& d) { fs::remove(d / kOptimizerFileName); });
  damage([](const fs::path& d) { fs::resize_file(d / kManifestName, 100); });
  damage([](const fs::path& d) { fs::resize_file(d / kModelFileName, 0); });
  damage([](const fs::path& d) { fs::resize_file(d / kModelFileName, 200); });
  damage([](const fs::path& d) { put_file(d / kModelFileName, std::string(400, '\0')); });
  damage([&](const fs::path& d) {
    fs::copy_file(save() / "iter_0000001" / kManifestName, d / kManifestName,
                  fs::copy_options::overwrite_existing);
  });
  damage([](const fs::path& d) {
    fs::rename(d / kModelFileName, d / "x");
    fs::rename(d / kOptimizerFileName, d / kModelFileName);
    fs::rename(d / "x", d / kOptimizerFileName);
  });
}

TEST_F(CheckpointTest, AManifestOfAnotherVersionIsNotSkipped) {
  save_at(1);
  const auto latest = save_at(2);
  std::string text = read_file(latest / kManifestName);
  text.replace(text.find("\"format_version\": 1"), 19, "\"format_version\": 2");
  put_file(latest / kManifestName, seal_manifest(text));
  EXPECT_THROW(CheckpointReader::open(save()), ConfigError);
}

TEST_F(CheckpointTest, TheManifestAndTheFilesMustAgree) {
  const auto latest = save_at(2);
  const std::string good = read_file(latest / kManifestName);
  const auto expect = [&](std::string_view from, std::string_view to, std::string_view message) {
    std::string text = good;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    put_file(latest / kManifestName, seal_manifest(text));
    EXPECT_THAT(message_of([&] { CheckpointReader::open(latest); }), HasSubstr(message)) << to;
  };
  expect("\"name\": \"embedding.", "\"name\": \"Embedding.", "of the manifest is missing");
  expect("\"dtype\": \"f32\", \"shape\": [5, 4]", "\"dtype\": \"i32\", \"shape\": [5, 4]",
         "the manifest says i32 [5, 4]");
  expect("\"shape\": [5, 4]", "\"shape\": [4, 5]", "the manifest says f32 [4, 5]");
  expect("\"iteration\": 2", "\"iteration\": 3", "is of iteration 3");
  // A tensor that nobody vouches for.
  const auto line = good.find("    {\"name\": \"embedding.");
  expect(good.substr(line, good.find('\n', line) + 1 - line), "", "is not in the manifest");
}

TEST_F(CheckpointTest, EveryFlippedBitOfATensorIsFound) {
  const auto latest = save_at(1);
  const auto path = latest / kModelFileName;
  const std::size_t data = fs::file_size(path) - 96;
  Arena arena("loaded", 4096);
  const auto words =
      whole_tensor("embedding.word_embeddings.weight", arena.allocate(DType::kF32, {5, 4}));
  const auto bias = whole_tensor("decoder.final_layernorm.bias", arena.allocate(DType::kF32, {4}));
  for (std::size_t byte = 0; byte < 96; ++byte) {
    const int bit = static_cast<int>(byte % 8);
    flip_bit(path, data + byte, bit);
    const auto reader = CheckpointReader::open(save());
    const auto& damaged = byte < 80 ? words : bias;
    const auto& whole = byte < 80 ? bias : words;
    EXPECT_THAT(
        message_of([&] { reader.read(damaged); }),
        AllOf(HasSubstr(path.string()), HasSubstr("tensor " + damaged.name + " is damaged")));
    reader.read(whole);
    EXPECT_THROW(reader.verify_all(), DataError);
    CheckpointReader::open(save(), Verify::kNo).read(damaged);
    flip_bit(path, data + byte, bit);
  }
  CheckpointReader::open(save()).verify_all();
}

// Every bit of the header: an error when it is opened or read, or nothing that is used has changed.
TEST_F(CheckpointTest, EveryFlippedBitOfAHeaderIsFoundOrHarmless) {
  const auto latest = save_at(1, 5);
  const auto path = latest / kModelFileName;
  const std::string good = read_file(path);
  for (std::size_t byte = 0; byte < good.size() - 96; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = good;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      put_file(path, damaged);
      try {
        const auto reader = CheckpointReader::open(save());
        for (const auto& entry : reader.manifest().tensors) reader.bytes(entry);
        EXPECT_THROW(reader.verify_all(), DataError);
      } catch (const DataError&) {
      }
    }
  }
}

TEST_F(CheckpointTest, TwoTensorsInEachOthersPlace) {
  Arena arena("test", 4096);
  const std::vector<GlobalTensor> tensors = {whole_tensor("a", filled(arena, {4}, 0)),
                                             whole_tensor("b", filled(arena, {4}, 9))};
  const auto path = save_checkpoint({.directory = save()}, {}, tensors) / kModelFileName;
  std::string text = read_file(path);
  std::swap(text[text.find("\"a\"") + 1], text[text.find("\"b\"") + 1]);
  put_file(path, text);
  EXPECT_THAT(message_of([&] { CheckpointReader::open(save()).read(tensors[0]); }),
              HasSubstr("tensor a is damaged"));
}

// --- Crashes

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

TEST_F(CheckpointTest, ACrashAtAnyStepLeavesALoadableLatest) {
  std::vector<std::string> steps;
  save_checkpoint({.directory = save(),
                   .before_step = [&](std::string_view step) { steps.emplace_back(step); }},
                  example_manifest(1), TinyModel().all());
  ASSERT_GE(steps.size(), 7U);
  const TinyModel model(20);
  bool in_place = false;
  for (const auto& step : steps) {
    SCOPED_TRACE(step);
    fs::remove_all(save());
    save_at(1, 10, 1);
    ASSERT_TRUE(
        die_before(step, {.directory = save(), .keep_last = 1}, example_manifest(2), model.all()));
    in_place = in_place || step == "prune";
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

TEST_F(CheckpointTest, ACrashWhileReplacingTheOnlyCheckpoint) {
  const TinyModel model(20);
  for (const auto* step : {"rename", "sync directory", "tracker", "prune"}) {
    SCOPED_TRACE(step);
    fs::remove_all(save());
    save_at(1, 10);
    ASSERT_TRUE(die_before(step, {.directory = save()}, example_manifest(1), model.all()));
    EXPECT_EQ(latest_base(), std::string_view(step) == "rename" ? 10 : 20);
    save_at(2, 30);
    EXPECT_THAT(names(),
                ElementsAre("iter_0000001", "iter_0000002", "latest_checkpointed_iteration.txt"));
  }
}

TEST_F(CheckpointTest, LeftoversOfAKilledRunGo) {
  save_at(1);
  fs::create_directories(save() / "iter_0000002.tmp");
  put_file(save() / "iter_0000002.tmp" / "model.safetensors.tmp", "half");
  EXPECT_EQ(CheckpointReader::open(save()).manifest().iteration, 1);
  save_at(3);
  EXPECT_FALSE(fs::exists(save() / "iter_0000002.tmp"));
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
