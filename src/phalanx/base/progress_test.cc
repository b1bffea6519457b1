#include "phalanx/base/progress.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "phalanx/base/file.h"

namespace phalanx {
namespace {

TEST(Progress, BelongsToAThread) {
  note_progress();  // no Progress, not counted
  EXPECT_EQ(thread_progress(), nullptr);
  Progress progress;
  {
    const ProgressScope scope(&progress);
    note_progress();
    EXPECT_EQ(progress.ticks(), 1U);
    std::thread([] { note_progress(); }).join();
    EXPECT_EQ(progress.ticks(), 1U);
    const ProgressScope none(nullptr);
    note_progress();
    EXPECT_EQ(progress.ticks(), 1U);
  }
  EXPECT_EQ(thread_progress(), nullptr);
}

TEST(Progress, NamesTheFileInUse) {
  Progress progress;
  const ProgressScope scope(&progress);
  {
    FileAccess outer("writing", "/a");
    {
      FileAccess inner("syncing", "/b");
      EXPECT_EQ(progress.files().access, "syncing /b");
    }
    const auto before = progress.ticks();
    outer.moved(7);
    EXPECT_GT(progress.ticks(), before);
    EXPECT_EQ(progress.files().access, "writing /a");
  }
  EXPECT_EQ(progress.files().access, "");
  EXPECT_EQ(progress.files().bytes, 7);
}

TEST(Progress, CountsBytesWrittenAndRead) {
  const auto path = std::filesystem::temp_directory_path() / "phalanx_progress_test";
  Progress progress;
  const ProgressScope scope(&progress);
  write_file_durably(path, std::string(1000, 'x'));
  EXPECT_EQ(progress.files().bytes, 1000);
  EXPECT_EQ(progress.files().files, 1);
  EXPECT_EQ(read_file(path).size(), 1000U);
  EXPECT_EQ(progress.files().bytes, 2000);
  EXPECT_EQ(progress.files().access, "");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace phalanx
