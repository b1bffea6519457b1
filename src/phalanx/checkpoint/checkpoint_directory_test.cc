// What a save directory holds, and which checkpoint of it is the latest.

#include "phalanx/checkpoint/checkpoint_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/checkpoint/checkpoint_fixture.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

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

TEST_F(CheckpointTest, EveryStagingDirectoryHasANameOfItsOwn) {
  EXPECT_NE(staging_directory_name(12), staging_directory_name(12));
  EXPECT_EQ(iteration_of_aside_name(aside_directory_name(12)), 12);
  EXPECT_FALSE(iteration_of_directory_name(aside_directory_name(12)));
  EXPECT_FALSE(is_staging_directory_name(aside_directory_name(12)));
  EXPECT_TRUE(is_staging_directory_name("iter_0000012.tmp"));
  EXPECT_TRUE(is_staging_directory_name("iter_0000012.tmp.0123456789abcdef"));
  for (const auto* name : {"iter_0000012.tmp.", "iter_0000012.tmp.0123456789abcde",
                           "iter_0000012.tmp.0123456789ABCDEF", "iter_0000012.tmp.backup",
                           "iter_12.tmp.0123456789abcdef", "notes.tmp.0123456789abcdef"}) {
    EXPECT_FALSE(is_staging_directory_name(name)) << name;
  }
  EXPECT_FALSE(iteration_of_aside_name("iter_0000012.old"));
  EXPECT_FALSE(iteration_of_aside_name("iter_0000012"));
}

// --- The latest

TEST_F(CheckpointTest, NothingThereIsNoCheckpoint) {
  EXPECT_FALSE(CheckpointReader::open_if_any(save()));
  EXPECT_THROW(CheckpointReader::open(save()), InputMissingError);
  EXPECT_THAT(no_checkpoint_message(save()), HasSubstr(save().string()));
  fs::create_directories(save() / "abandoned-1");
  put_file(save() / "metrics.jsonl", "");
  EXPECT_FALSE(CheckpointReader::open_if_any(save()));
  // What cannot be looked into may hold one.
  EXPECT_THROW(CheckpointReader::open_if_any(save() / "metrics.jsonl"), IoError);
}

TEST_F(CheckpointTest, WithoutTheTrackerTheLatestIsFound) {
  save_at(3, 30);
  save_at(4, 40);
  fs::remove(save() / kTrackerName);
  EXPECT_EQ(latest_base(), 40);
  EXPECT_THROW(CheckpointReader::open_if_any(save() / "iter_0000005"), InputMissingError);
  fs::create_directories(save() / "iter_0000005" / "mp_rank_00");
  EXPECT_THAT(error_of([&] { CheckpointReader::open(save() / "iter_0000005"); }),
              HasSubstr("not a checkpoint of Phalanx"));
}

TEST_F(CheckpointTest, TheTrackerIsAHint) {
  save_at(1, 10);
  save_at(2, 20);
  for (const auto* text : {"1", "7", "", "\n", "x", "-1", "2.0", "2 3", "99999999999999999999"}) {
    put_file(save() / kTrackerName, text);
    EXPECT_THAT(
        warnings_of([&] { EXPECT_EQ(latest_base(), 20) << text; }),
        AllOf(HasSubstr(std::string(kTrackerName)), HasSubstr((save() / "iter_0000002").string())));
  }
  put_file(save() / kTrackerName, " 0000002\r\n");
  EXPECT_THAT(warnings_of([&] { EXPECT_EQ(latest_base(), 20); }), IsEmpty());
}

// A run must not start from random where something was saved.
TEST_F(CheckpointTest, ATrackerWithoutCheckpointsIsAnError) {
  fs::create_directories(save());
  put_file(save() / kTrackerName, "12");
  EXPECT_THAT(error_of([&] { CheckpointReader::open_if_any(save()); }),
              HasSubstr("says 12, but no checkpoint of Phalanx is there"));
  EXPECT_THROW(CheckpointReader::open_if_any(save()), DataError);
  put_file(save() / kTrackerName, "");
  EXPECT_THAT(error_of([&] { CheckpointReader::open_if_any(save()); }),
              HasSubstr("does not hold an iteration number"));
  fs::remove(save() / kTrackerName);
  fs::create_directories(save() / "iter_0000012" / "mp_rank_00");
  EXPECT_THAT(error_of([&] { CheckpointReader::open_if_any(save()); }),
              AllOf(HasSubstr("has no manifest.json"), HasSubstr("no older checkpoint")));
}

TEST_F(CheckpointTest, OfManyThatCannotBeReadTheFirstAreNamed) {
  for (int i = 2; i <= 31; ++i) fs::create_directories(save() / iteration_directory_name(i));
  const std::string message = error_of([&] { CheckpointReader::open_if_any(save()); });
  EXPECT_THAT(message, AllOf(HasSubstr("not a checkpoint of Phalanx; and 20 more; no older"),
                             HasSubstr("iter_0000011"), Not(HasSubstr("iter_0000012"))));
  save_in_start(1, 1, 10, 0);
  const std::string warnings = warnings_of([&] { CheckpointReader::open_if_any(save()); });
  EXPECT_EQ(std::ranges::count(warnings, '\n'), 11) << warnings;
  EXPECT_THAT(warnings, HasSubstr("20 more checkpoints cannot be read"));
}

TEST_F(CheckpointTest, TheLatestIsOfTheLatestStart) {
  save_at(9, 90, 0);
  save_at(12, 120, 0);
  save_in_start(2, 7, 70, 0);
  EXPECT_EQ(latest_base(), 70);
  const auto saved = saved_checkpoints(save());
  ASSERT_EQ(saved.size(), 3U);
  EXPECT_EQ(saved[2].directory, save() / "iter_0000007");
  EXPECT_EQ(saved[2].start, 2);
  EXPECT_EQ(saved[2].iteration, 7);
  EXPECT_EQ(saved[2].run_id, example_manifest(7).run_id);
  EXPECT_THAT(iterations(), ElementsAre(9, 12, 7));
  fs::remove_all(saved[2].directory);
  EXPECT_EQ(latest_base(), 120);
}

TEST_F(CheckpointTest, WithoutAStartItIsTheFirst) {
  save_in_start(0, 12, 120, 0);
  save_in_start(1, 3, 30, 0);
  EXPECT_EQ(latest_base(), 30);
}

TEST_F(CheckpointTest, AManifestOfAnotherVersionIsNotSkipped) {
  save_at(1);
  const auto latest = save_at(2);
  std::string text = read_file(latest / kManifestName);
  text.replace(text.find("\"format_version\": 2"), 19, "\"format_version\": 9");
  put_file(latest / kManifestName, seal_manifest(text));
  EXPECT_THROW(CheckpointReader::open(save()), ConfigError);
  // Nor does it keep a run from saving.
  save_at(3);
  EXPECT_THAT(iterations(), ElementsAre(1, 3));
}

TEST_F(CheckpointTest, ADamagedCheckpointGivesWayToTheOneBefore) {
  save_at(1, 10);
  const auto damage = [&](auto action) {
    const auto latest = save_at(2, 20);
    action(latest);
    EXPECT_THAT(warnings_of([&] { EXPECT_EQ(latest_base(), 10); }),
                AllOf(HasSubstr(latest.string()),
                      HasSubstr("taking " + (save() / "iter_0000001").string())));
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
  // One bit of the data, of either file.
  damage([](const fs::path& d) {
    flip_bit(d / kModelFileName, fs::file_size(d / kModelFileName) - 1, 0);
  });
  damage([](const fs::path& d) {
    flip_bit(d / kOptimizerFileName, fs::file_size(d / kOptimizerFileName) - 1, 0);
  });
}

TEST_F(CheckpointTest, WithoutOneThatIsWholeTheFaultsAreNamed) {
  for (const std::int64_t iteration : {1, 2}) {
    const auto path = save_at(iteration) / kModelFileName;
    flip_bit(path, fs::file_size(path) - 1, 0);
  }
  fs::resize_file(save_at(3) / kManifestName, 100);
  EXPECT_THAT(error_of([&] { CheckpointReader::open_if_any(save()); }),
              AllOf(HasSubstr("iter_0000001/model.safetensors"), HasSubstr("iter_0000002"),
                    HasSubstr("iter_0000003/manifest.json"), HasSubstr("no older checkpoint")));
}

// --- Leaving checkpoints behind

TEST_F(CheckpointTest, WhatComesAfterACheckpoint) {
  for (const std::int64_t iteration : {3, 6, 9, 12}) save_at(iteration, 0, 0);
  EXPECT_THAT(checkpoints_after(save(), 1, 12), IsEmpty());
  EXPECT_THAT(checkpoints_after(save(), 1, 6),
              ElementsAre(save() / "iter_0000009", save() / "iter_0000012"));
  save_in_start(2, 7, 0, 0);
  EXPECT_THAT(checkpoints_after(save(), 1, 9),
              ElementsAre(save() / "iter_0000012", save() / "iter_0000007"));
  EXPECT_THAT(checkpoints_after(save(), 2, 7), IsEmpty());
  // What cannot be read is known by its name only.
  fs::remove(save() / "iter_0000009" / kManifestName);
  fs::resize_file(save() / "iter_0000003" / kManifestName, 10);
  EXPECT_THAT(checkpoints_after(save(), 2, 7), ElementsAre(save() / "iter_0000009"));
  EXPECT_THAT(checkpoints_after(save() / "none", 0, 0), IsEmpty());
}

TEST_F(CheckpointTest, AnAsideCopyComesAfterToo) {
  save_at(3, 0, 0);
  const auto aside = save() / aside_directory_name(6);
  fs::rename(save_at(6, 0, 0), aside);
  EXPECT_THAT(checkpoints_after(save(), 1, 3), ElementsAre(aside));
  save_at(5, 0, 0);  // which gives it its name back
  const auto copy = save() / aside_directory_name(6);
  fs::copy(save() / "iter_0000006", copy);
  EXPECT_THAT(
      checkpoints_after(save(), 1, 3),
      testing::UnorderedElementsAre(copy, save() / "iter_0000005", save() / "iter_0000006"));
  EXPECT_THAT(checkpoints_after(save(), 1, 6), IsEmpty());
}

TEST_F(CheckpointTest, AbandonedOnesAreKeptElsewhere) {
  for (const std::int64_t iteration : {3, 6, 9})
    save_at(iteration, static_cast<float>(iteration), 0);
  EXPECT_EQ(free_abandoned_name(save()), "abandoned-1");
  const auto first = make_abandoned_directory(save(), "abandoned-1");
  EXPECT_EQ(first, save() / "abandoned-1");
  move_into(first, checkpoints_after(save(), 1, 3));
  EXPECT_EQ(latest_base(), 3);
  EXPECT_THAT(iterations(), ElementsAre(3));
  EXPECT_EQ(CheckpointReader::open(first).manifest().iteration, 9);
  put_file(save() / "abandoned-2", "somebody's");
  EXPECT_EQ(free_abandoned_name(save()), "abandoned-3");
  EXPECT_THROW(make_abandoned_directory(save(), "abandoned-2"), OutputError);
  // Whoever was interrupted goes on with it.
  EXPECT_EQ(make_abandoned_directory(save(), "abandoned-1"), first);
  // Saves leave them alone.
  save_at(6, 60, 1);
  EXPECT_EQ(CheckpointReader::open(first).manifest().iteration, 9);
}

TEST_F(CheckpointTest, WhatCannotBeMovedIsNamed) {
  save_at(3);
  const auto abandoned = make_abandoned_directory(save(), "abandoned-1");
  const std::vector<fs::path> none = {save() / "iter_0000004"};
  EXPECT_THAT(error_of([&] { move_into(abandoned, none); }), HasSubstr(none[0].string()));
  EXPECT_THROW(move_into(abandoned, none), OutputError);
  EXPECT_THROW(make_abandoned_directory(save() / "none", "abandoned-1"), OutputError);
}

TEST_F(CheckpointTest, WhatLiesInACheckpointIsSeen) {
  const fs::path checkpoint = save_at(3);
  const auto around = [](const fs::path& path) {
    return checkpoint_around(path).value_or("none").filename();
  };
  const fs::path name = checkpoint.filename();
  for (const char* inside : {"run", "a/b/c", "a/../run", "../iter_0000003/run"}) {
    EXPECT_EQ(around(checkpoint / inside), name) << inside;
  }
  EXPECT_EQ(around(checkpoint), name);
  EXPECT_EQ(around(save()), "none");
  EXPECT_EQ(around(save() / "run"), "none");
  EXPECT_EQ(around(save() / "iter_0000003.tmp.0123456789abcdef/run"), "none");  // is not there
  // By links, from outside and from inside.
  fs::create_directory_symlink(checkpoint, save() / "link");
  EXPECT_EQ(around(save() / "link" / "run"), name);
  fs::create_directory_symlink(save(), checkpoint / "out");
  EXPECT_EQ(around(checkpoint / "out" / "run"), name);
  // A copy of any name, and one that is half written.
  fs::copy(checkpoint, save() / "best");
  EXPECT_EQ(around(save() / "best" / "run"), "best");
  const std::string staging = staging_directory_name(5);
  fs::create_directory(save() / staging);
  EXPECT_EQ(around(save() / staging / "run"), staging);
  // Other programs have manifests too.
  put_file(save() / "manifest.json", "{}");
  EXPECT_EQ(around(save() / "run"), "none");
}

}  // namespace
}  // namespace phalanx
