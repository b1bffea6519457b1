// Which checkpoints stay: by number, by iteration, and behind one that was read back.

#include "phalanx/checkpoint/retention.h"

#include <gmock/gmock.h>

#include <fstream>

#include "phalanx/checkpoint/background_verifier.h"
#include "phalanx/checkpoint/checkpoint_fixture.h"
#include "phalanx/checkpoint/housekeeping.h"
#include "phalanx/checkpoint/read_back.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Far more than it takes.
constexpr std::chrono::seconds kSoon{60};

// The iterations that go of 1, ..., 8, where `verified` were read back.
std::vector<std::int64_t> old_of_eight(const Retention& retention,
                                       const std::vector<std::int64_t>& verified = {}) {
  std::vector<SavedCheckpoint> saved;
  for (std::int64_t i = 1; i <= 8; ++i) {
    saved.push_back({.directory = {}, .start = 1, .iteration = i, .run_id = {}});
  }
  std::vector<std::int64_t> old;
  const auto is_verified = [&](const SavedCheckpoint& checkpoint) {
    return std::ranges::find(verified, checkpoint.iteration) != verified.end();
  };
  for (const auto& checkpoint : superfluous(saved, retention, is_verified)) {
    old.push_back(checkpoint.iteration);
  }
  return old;
}

TEST(Retention, CountsAndMultiples) {
  EXPECT_THAT(old_of_eight({.keep_last = 0}), IsEmpty());
  EXPECT_THAT(old_of_eight({.keep_last = 8}), IsEmpty());
  EXPECT_THAT(old_of_eight({.keep_last = 5}), ElementsAre(1, 2, 3));
  EXPECT_THAT(old_of_eight({.keep_last = 1, .keep_every = 3}), ElementsAre(1, 2, 4, 5, 7));
  EXPECT_THAT(old_of_eight({.keep_last = 2, .keep_every = 4}), ElementsAre(1, 2, 3, 5, 6));
}

TEST(Retention, NothingGoesThatIsNotOlderThanAVerifiedOne) {
  const Retention careful{.keep_last = 2, .waits_for_verified = true};
  EXPECT_THAT(old_of_eight(careful), IsEmpty());
  EXPECT_THAT(old_of_eight(careful, {1}), IsEmpty());
  EXPECT_THAT(old_of_eight(careful, {2, 3}), ElementsAre(1, 2));
  EXPECT_THAT(old_of_eight(careful, {8}), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(old_of_eight({.keep_last = 1, .keep_every = 2, .waits_for_verified = true}, {5, 6}),
              ElementsAre(1, 3, 5));
}

class VerifiedSaves : public testing_support::CheckpointTest {
 protected:
  static constexpr Retention kOne{.keep_last = 1, .waits_for_verified = true};

  fs::path save_carefully(std::int64_t iteration, float base = 0) const {
    Manifest manifest = testing_support::example_manifest(iteration);
    return save_checkpoint({.directory = save(), .retention = kOne}, std::move(manifest),
                           testing_support::TinyModel(base).all());
  }
  // What a run's end finds.
  std::vector<std::string> faults_found() const {
    BackgroundVerifier verifier(save(), holder_);
    verifier.finish(kSoon);
    return verifier.take_faults();
  }
  bool is_marked(const fs::path& checkpoint) const { return VerifiedMarks(save()).has(checkpoint); }

  DirectoryHolder holder_{.run_id = testing_support::example_manifest(1).run_id};
};

// Two runs on a file system without locks, or whoever copied a checkpoint there.
class ForeignCheckpoints : public VerifiedSaves {
 protected:
  static constexpr Retention kLast{.keep_last = 1};

  fs::path save_of(char run, std::int64_t iteration) const {
    Manifest manifest = testing_support::example_manifest(iteration);
    manifest.run_id = run == ' ' ? std::string() : std::string(32, run);
    return save_checkpoint({.directory = save(), .retention = kLast}, std::move(manifest),
                           testing_support::TinyModel(0).all());
  }
};

TEST_F(ForeignCheckpoints, StayAndAreNamed) {
  const fs::path other = save_of('a', 1);
  EXPECT_THAT(testing_support::warnings_of([&] { save_of('b', 2); }),
              HasSubstr(other.string() + " is of another run"));
  save_of('b', 3);
  EXPECT_THAT(iterations(), ElementsAre(1, 3));
  // One that has no id is of the run that lies there.
  save_of(' ', 4);
  EXPECT_THAT(testing_support::warnings_of([&] { save_of('b', 5); }), HasSubstr("another run"));
  EXPECT_THAT(iterations(), ElementsAre(1, 5));
}

TEST_F(ForeignCheckpoints, AreNotReplaced) {
  const fs::path other = save_of('a', 1);
  EXPECT_THAT(error_of<OutputError>([&] { save_of('b', 1); }),
              HasSubstr(other.string() + ": is the checkpoint of another run"));
  EXPECT_EQ(read_manifest_of(other).run_id, std::string(32, 'a'));
  save_of('a', 1);
}

TEST_F(ForeignCheckpoints, AreNotMarked) {
  const fs::path other = save_of('a', 1);
  holder_.run_id = std::string(32, 'b');
  EXPECT_THAT(faults_found(), IsEmpty());
  EXPECT_FALSE(is_marked(other));
  holder_.run_id = std::string(32, 'a');
  faults_found();
  EXPECT_TRUE(is_marked(other));
}

// The directory at the path is another than the one that the run has locked.
TEST_F(VerifiedSaves, NothingIsRemovedOrMarkedInAnothersDirectory) {
  for (const std::int64_t iteration : {1, 2, 3}) save_carefully(iteration);
  const fs::path unfinished = save() / staging_directory_name(4);
  fs::create_directory(unfinished);
  holder_.holds = [] { return false; };
  EXPECT_THAT(faults_found(), IsEmpty());
  EXPECT_FALSE(fs::exists(save() / kVerifiedName));
  tidy_up(save(), holder_);
  prune(save(), 1, 3, {.keep_last = 1}, holder_);
  EXPECT_THAT(iterations(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(fs::exists(unfinished));
}

// It becomes another one while files are removed.
TEST_F(VerifiedSaves, RemovingEndsWhereTheDirectoryIsLost) {
  const auto files_left = [&](int asked) {
    fs::remove_all(save());
    for (const std::int64_t iteration : {1, 2, 3}) save_carefully(iteration);
    holder_.holds = [&asked] { return asked-- > 0; };
    prune(save(), 1, 3, {.keep_last = 1}, holder_);
    return std::distance(fs::recursive_directory_iterator(save()), {});
  };
  std::ptrdiff_t before = files_left(0);
  int kept = 0;
  for (int asked = 1; asked < 12; ++asked) {
    const std::ptrdiff_t left = files_left(asked);
    EXPECT_LE(left, before);
    EXPECT_GE(left, before - 1) << "one entry for each question";
    kept += left == before ? 1 : 0;
    before = left;
  }
  EXPECT_LT(kept, 6);
}

TEST_F(VerifiedSaves, TheMarkOutlivesTheRunAndNotAChange) {
  const fs::path checkpoint = save_carefully(1);
  EXPECT_FALSE(is_marked(checkpoint));
  EXPECT_THAT(faults_found(), IsEmpty());
  EXPECT_TRUE(is_marked(checkpoint));
  // Copied, as a restored one.
  fs::rename(checkpoint, save() / "elsewhere");
  fs::copy(save() / "elsewhere", checkpoint);
  EXPECT_FALSE(is_marked(checkpoint));
  fs::remove_all(save() / "elsewhere");
  EXPECT_THAT(faults_found(), IsEmpty());
  EXPECT_TRUE(is_marked(checkpoint));
  std::ofstream(checkpoint / "notes") << "more";
  EXPECT_FALSE(is_marked(checkpoint));
}

TEST_F(VerifiedSaves, DamagedMarksCountForNothing) {
  const fs::path checkpoint = save_carefully(1);
  faults_found();
  ASSERT_TRUE(is_marked(checkpoint));
  testing_support::flip_bit(save() / kVerifiedName, 100, 0);
  const std::string said =
      testing_support::warnings_of([&] { EXPECT_FALSE(is_marked(checkpoint)); });
  EXPECT_THAT(said, HasSubstr("no checkpoint there counts as verified"));
}

// --keep-last 1 on a disk that loses what it was given.
TEST_F(VerifiedSaves, TheLastThatCanBeReadStays) {
  save_carefully(1);
  faults_found();
  for (std::int64_t iteration = 2; iteration <= 4; ++iteration) {
    const fs::path bad = save_carefully(iteration);
    testing_support::flip_bit(bad / kModelFileName, 200, 3);
    const std::vector<std::string> faults = faults_found();
    ASSERT_FALSE(faults.empty());
    EXPECT_THAT(faults[0], HasSubstr((bad / kModelFileName).string()));
  }
  EXPECT_THAT(iterations(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(CheckpointReader::open(save()).manifest().iteration, 1);
  // The disk was replaced.
  save_carefully(5);
  EXPECT_THAT(iterations(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(faults_found(), IsEmpty());
  save_carefully(6);
  EXPECT_THAT(iterations(), ElementsAre(5, 6));
}

TEST_F(VerifiedSaves, AreReadWhileTheRunGoesOn) {
  BackgroundVerifier verifier(save(), holder_);  // nothing is there
  verifier.finish(kSoon);
  for (std::int64_t iteration = 1; iteration <= 3; ++iteration) {
    save_carefully(iteration);
    verifier.look();
    verifier.finish(kSoon);
    prune(save(), 1, iteration, kOne, holder_);
    EXPECT_THAT(iterations(), ElementsAre(iteration));
  }
  EXPECT_THAT(verifier.take_faults(), IsEmpty());
}

TEST_F(VerifiedSaves, ReadingCanBeGivenUp) {
  const fs::path checkpoint = save_carefully(1);
  std::string fault;
  int blocks = 0;
  EXPECT_EQ(read_back(
                checkpoint, [&](std::chrono::nanoseconds) { return ++blocks < 2; }, fault),
            ReadBackOutcome::kGivenUp);
  EXPECT_EQ(blocks, 2);
  EXPECT_EQ(read_back(
                checkpoint, [](std::chrono::nanoseconds) { return true; }, fault),
            ReadBackOutcome::kWhole);
  EXPECT_EQ(fault, "");
}

}  // namespace
}  // namespace phalanx
