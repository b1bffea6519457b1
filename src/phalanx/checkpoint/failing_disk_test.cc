// A save while the file system fails: at every call that makes, writes, renames or removes.
// Whatever fails, a checkpoint is lost only by being replaced, and there is one clear error or
// none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "phalanx/base/failing_calls.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_fixture.h"
#include "phalanx/checkpoint/parts_test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using What = FailingCalls::What;

// Once beside an older checkpoint, once in place of one, with and without an exchange, and in
// parts.
struct Case {
  std::int64_t before = 1;
  std::int64_t iteration = 2;
  bool may_exchange = true;
  bool in_parts = false;
  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.before << " then " << c.iteration << (c.may_exchange ? "" : " without exchange")
         << (c.in_parts ? " in parts" : "");
  }
};

class FailingDiskTest : public CheckpointTest, public testing::WithParamInterface<Case> {
 protected:
  FailingDiskTest() : model_(20), manifest_(example_manifest(GetParam().iteration)) {
    manifest_.input_files[0].copy = "vocab.json";
    options_ = {.directory = save(),
                .retention = {.keep_last = 1},
                .copies = {{"vocab.json", "{}"}},
                .may_exchange = GetParam().may_exchange};
  }
  // The directory as it was before: a checkpoint of base 10.
  void begin() {
    const FailingCalls unsynced(What::kCount);
    fs::remove_all(save());
    save_at(GetParam().before, 10);
  }
  // The message of the error that the save ends with, or "no error".
  std::string try_to_save() {
    return error_of<OutputError>([&] {
      if (!GetParam().in_parts) {
        save_checkpoint(options_, manifest_, model_.all());
        return;
      }
      TestParts parts(model_.all(), cut_for_ranks(model_.all(), 2, 7));
      save_checkpoint(options_, manifest_, parts);
    });
  }
  // How many calls a save makes.
  int calls() {
    begin();
    const FailingCalls counted(What::kCount);
    try_to_save();
    return counted.count();
  }
  // One of the two is there, whole, and the next save finds everything in order.
  void check(bool may_be_new, bool may_be_old) {
    const float base = latest_base();
    EXPECT_TRUE((may_be_new && base == 20) || (may_be_old && base == 10)) << base;
    const FailingCalls unsynced(What::kCount);
    save_in_start(2, 9, 30, 1);
    EXPECT_EQ(latest_base(), 30);
    EXPECT_THAT(names(), ElementsAre("iter_0000009", "latest_checkpointed_iteration.txt"));
  }

  TinyModel model_;
  Manifest manifest_;
  SaveOptions options_;
};

TEST_P(FailingDiskTest, OneCallFails) {
  const int count = calls();
  ASSERT_GT(count, 30);
  for (int at = 0; at < count; ++at) {
    begin();
    std::string message;
    std::string call;
    {
      const FailingCalls failing(What::kFail, at, EIO);
      message = try_to_save();
      call = failing.names()[static_cast<std::size_t>(at)];
    }
    SCOPED_TRACE(std::to_string(at) + " " + call + ": " + message);
    if (message != "no error") {
      EXPECT_THAT(message, AllOf(HasSubstr(save().string()), HasSubstr("Input/output error"),
                                 Not(HasSubstr("\n"))));
    }
    check(true, message != "no error");
  }
}

TEST_P(FailingDiskTest, TheDiskIsFullFromACallOn) {
  const int count = calls();
  for (int at = 0; at < count; ++at) {
    begin();
    std::string message;
    {
      const FailingCalls failing(What::kStayFull, at);
      message = try_to_save();
    }
    SCOPED_TRACE(std::to_string(at) + ": " + message);
    if (message != "no error") {
      EXPECT_THAT(message, HasSubstr("No space left on device"));
    }
    check(true, message != "no error");
  }
}

TEST_P(FailingDiskTest, TheProcessDiesInAnyCall) {
  const int count = calls();
  bool in_place = false;
  for (int at = 0; at < count; ++at) {
    begin();
    const pid_t child = ::fork();
    if (child == 0) {
      const FailingCalls dying(What::kDie, at);
      try_to_save();
      ::_exit(1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    SCOPED_TRACE(at);
    // From one call on it is the new one, and stays so.
    in_place = in_place || latest_base() == 20;
    check(in_place, !in_place);
  }
  EXPECT_TRUE(in_place);
}

TEST_P(FailingDiskTest, ShortWritesAreCompleted) {
  begin();
  {
    const FailingCalls shortened(What::kShortWrite);
    EXPECT_EQ(try_to_save(), "no error");
  }
  CheckpointReader::open(save()).verify_all();
  check(true, false);
}

INSTANTIATE_TEST_SUITE_P(Cases, FailingDiskTest,
                         testing::Values(Case{}, Case{.iteration = 1},
                                         Case{.iteration = 1, .may_exchange = false},
                                         Case{.in_parts = true}));

// --- A disk that cannot be read

using FailingReadsTest = CheckpointTest;

// Whichever read of the newest checkpoint fails, the one before it is taken.
TEST_F(FailingReadsTest, ABadDiskIsPassedOver) {
  save_at(1, 10);
  save_at(2, 20);
  FailingCalls counted(What::kCount);
  counted.only({"pread"});
  CheckpointReader::open(save());
  const int count = counted.count();
  ASSERT_GE(count, 6);  // length, header and digest of two files
  for (int at = 0; at < count; ++at) {
    SCOPED_TRACE(at);
    std::string warnings;
    {
      FailingCalls failing(What::kFail, at, EIO);
      failing.only({"pread"});
      warnings =
          warnings_of([&] { EXPECT_EQ(CheckpointReader::open(save()).manifest().iteration, 1); });
    }
    EXPECT_THAT(warnings, AllOf(HasSubstr("iter_0000002"), HasSubstr("cannot read beyond byte"),
                                HasSubstr("Input/output error"), HasSubstr("iter_0000001")));
  }
}

// After it was opened, too, a fault is an error with a name, not a signal.
TEST_F(FailingReadsTest, AFaultBehindTheOpeningIsAnError) {
  save_at(1, 10);
  const auto reader = CheckpointReader::open(save());
  const auto* entry = reader.find("embedding.word_embeddings.weight");
  ASSERT_NE(entry, nullptr);
  const fs::path file = reader.directory() / kModelFileName;
  {
    FailingCalls failing(What::kFail, 0, EIO);
    failing.only({"pread"});
    EXPECT_THAT(error_of<IoError>([&] { bytes_of(reader, *entry); }),
                AllOf(HasSubstr(file.string()), HasSubstr("Input/output error")));
  }
  {
    const FailingCalls shortened(What::kShortWrite);
    EXPECT_EQ(bytes_of(reader, *entry).size(), 80U);
  }
  fs::resize_file(file, fs::file_size(file) - 100);
  EXPECT_THAT(error_of<IoError>([&] { bytes_of(reader, *entry); }),
              AllOf(HasSubstr(file.string()), HasSubstr("the file became shorter")));
}

// --- Housekeeping that fails

using HousekeepingTest = CheckpointTest;

TEST_F(HousekeepingTest, ALeftoverThatStaysIsAWarning) {
  save_at(1, 10);
  const auto leftover = save() / staging_directory_name(5);
  fs::create_directories(leftover / "x" / "y");
  std::string warnings;
  {
    FailingCalls failing(What::kFail, 0, EACCES);
    failing.only({"unlinkat"});
    warnings = warnings_of([&] { save_at(2, 20, 0); });
  }
  EXPECT_THAT(warnings, AllOf(HasSubstr(leftover.string()), HasSubstr("cannot be removed"),
                              HasSubstr("Permission denied")));
  EXPECT_EQ(latest_base(), 20);
}

TEST_F(HousekeepingTest, AnOldCheckpointThatStaysIsAWarning) {
  save_at(1, 10);
  std::string warnings;
  {
    // The rename of the old one: after the files', the staging directory's and the tracker's.
    FailingCalls counted(What::kCount);
    counted.only({"rename"});
    save_at(2, 20, 0);
    fs::remove_all(save() / "iter_0000002");
    const int last = counted.count();
    FailingCalls failing(What::kFail, last, EACCES);
    failing.only({"rename"});
    warnings = warnings_of([&] { save_at(2, 20, 1); });
  }
  EXPECT_THAT(warnings, AllOf(HasSubstr("iter_0000001"), HasSubstr("cannot be removed")));
  EXPECT_THAT(iterations(), ElementsAre(1, 2));
  EXPECT_EQ(latest_base(), 20);
}

TEST_F(HousekeepingTest, ATrackerThatCannotBeWrittenIsAWarning) {
  save_at(1, 10);
  fs::remove(save() / kTrackerName);
  fs::create_directories(save() / kTrackerName / "x");
  EXPECT_THAT(warnings_of([&] { save_at(2, 20); }),
              AllOf(HasSubstr(std::string(kTrackerName)), HasSubstr("itself is saved")));
  EXPECT_EQ(latest_base(), 20);
}

// What is made is on disk before what lies in it counts as saved.
TEST_F(HousekeepingTest, ParentsOfTheSaveDirectoryAreSynced) {
  const FailingCalls calls(What::kCount);
  const auto deep = fs::weakly_canonical(save() / "a" / "b");
  const auto written = save_checkpoint({.directory = deep}, example_manifest(1), TinyModel().all());
  for (const auto& path : {save().parent_path(), save(), save() / "a", deep}) {
    EXPECT_THAT(calls.synced(), testing::Contains(fs::canonical(path).string()));
  }
  EXPECT_THAT(read_file(written / kManifestName), Not(IsEmpty()));
}

}  // namespace
}  // namespace phalanx
