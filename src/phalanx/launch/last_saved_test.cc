#include "phalanx/launch/last_saved.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "phalanx/launch/test_support.h"

namespace phalanx::launch {
namespace {

using testing::HasSubstr;

class LastSaved : public testing::Test {
 protected:
  std::filesystem::path save_checkpoint(std::int64_t start, std::int64_t iteration) const {
    auto directory = save_ / iteration_directory_name(iteration);
    std::filesystem::create_directories(directory);
    std::ofstream(directory / kManifestName) << manifest_text(start, iteration);
    return directory;
  }
  SavedCheckpoint checkpoint(std::int64_t start, std::int64_t iteration) const {
    return {.directory = save_ / iteration_directory_name(iteration),
            .start = start,
            .iteration = iteration,
            .run_id = std::string(32, 'a')};
  }

  const TemporaryDirectory temporary_{"last-saved"};
  const std::filesystem::path save_ = temporary_.path() / "save";
};

TEST_F(LastSaved, IsWhatWasWrittenLast) {
  const LastSavedFile file = LastSavedFile::make();
  EXPECT_FALSE(file.read());
  EXPECT_FALSE(LastSavedFile().read());
  for (const char* name : {"a long name with blanks\nand \xff bytes", "b"}) {
    const SavedCheckpoint written{
        .directory = save_ / name, .start = 2, .iteration = 30, .run_id = ""};
    write_last_saved(file.descriptor(), written);
    const auto read = file.read();
    ASSERT_TRUE(read);
    EXPECT_EQ(read->directory, written.directory);
    EXPECT_EQ(read->start, 2);
    EXPECT_EQ(read->iteration, 30);
    EXPECT_EQ(read->run_id, "");
  }
}

TEST_F(LastSaved, IsNotLostWhereItOrANewerOneIsThere) {
  save_checkpoint(1, 10);
  EXPECT_EQ(loss_of(checkpoint(1, 10)), "");
  std::filesystem::rename(save_ / iteration_directory_name(10), save_ / "gone");
  save_checkpoint(1, 20);
  EXPECT_EQ(loss_of(checkpoint(1, 10)), "");
  // What cannot be read, and what a start has moved aside, the run itself tells of.
  std::ofstream(save_ / iteration_directory_name(20) / kManifestName) << "damaged";
  EXPECT_EQ(loss_of(checkpoint(1, 20)), "");
  std::filesystem::create_directories(save_ / "abandoned-2");
  std::filesystem::rename(save_ / iteration_directory_name(20),
                          save_ / "abandoned-2" / iteration_directory_name(20));
  EXPECT_EQ(loss_of(checkpoint(1, 20)), "");
}

TEST_F(LastSaved, IsLostWithItsDirectory) {
  EXPECT_THAT(loss_of(checkpoint(1, 10)), HasSubstr("the directory is not there"));
  std::filesystem::create_directories(save_);  // an empty mount point
  EXPECT_THAT(loss_of(checkpoint(1, 10)),
              testing::AllOf(HasSubstr("iter_0000010"), HasSubstr("there is none of this run")));
}

TEST_F(LastSaved, IsLostWhereOnlyOlderOnesOrOthersAreThere) {
  save_checkpoint(1, 10);
  EXPECT_THAT(loss_of(checkpoint(1, 20)),
              HasSubstr("the newest of this run there is of iteration 10"));
  SavedCheckpoint of_other = checkpoint(1, 5);
  of_other.run_id = std::string(32, 'b');
  EXPECT_THAT(loss_of(of_other), HasSubstr("there is none of this run"));
}

// Nor does a job begin anew somewhere else that has not saved yet, or is not known to have.
TEST_F(LastSaved, IsLostWithWhatTheJobHasBegun) {
  const SavedCheckpoint nothing{
      .directory = save_ / ".job", .start = 0, .iteration = kNothingSaved, .run_id = {}};
  EXPECT_THAT(loss_of(nothing), HasSubstr("what this job has begun in " + save_.string()));
  std::filesystem::create_directories(save_);
  std::ofstream(save_ / ".job") << "{}";
  EXPECT_EQ(loss_of(nothing), "");
}

}  // namespace
}  // namespace phalanx::launch
