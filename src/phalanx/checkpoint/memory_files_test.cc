// Checkpoints in memory files: what is not sealed is not there, and the newest that all ranks have
// finished is found.

#include "phalanx/checkpoint/memory_files.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kRanks = 2;

class MemoryFilesTest : public testing::Test {
 protected:
  // A tensor of two rows; each rank writes one. `until`: the rank that is killed before it seals.
  void write(const std::string& epoch, std::int64_t iteration, int turn, int killed = -1) {
    std::vector<Manifest::Part> parts;
    std::vector<MemoryFileWriter> writers;
    for (int rank = kRanks; rank-- > 0;) {
      MemoryFileWriter writer(files_.descriptor(rank, turn), epoch);
      writer.begin_part(rank, {{"w", DType::kF32, {MatrixBox{rank, 0, 1, kColumns}}}});
      const std::vector<float> row(kColumns, static_cast<float>(10 * iteration + rank));
      const auto bytes = std::as_bytes(std::span(row));
      // In pieces that are no blocks.
      writer.write(bytes.first(12));
      writer.write(bytes.subspan(12));
      parts.insert(parts.begin(), writer.finish_part());
      if (rank == killed) return;
      if (rank > 0) writer.seal();
      if (rank > 0) continue;
      Manifest manifest = testing_support::example_manifest(iteration);
      manifest.phalanx_version = "1";
      manifest.epoch = epoch;
      manifest.parts = parts;
      manifest.tensors = {{.name = "w", .dtype = DType::kF32, .shape = {2, kColumns}, .file = {}}};
      writer.add(kManifestName, manifest_to_json(manifest));
      writer.seal();
    }
  }
  std::vector<std::string> epochs() const {
    std::vector<std::string> epochs;
    for (const auto& one : memory_checkpoints(files_)) epochs.push_back(one.epoch);
    return epochs;
  }

  static constexpr std::int64_t kColumns = 3 << 20;  // 12 MiB: two blocks
  MemoryFiles files_ = MemoryFiles::make(kRanks);
};

TEST_F(MemoryFilesTest, WhatWasWrittenIsRead) {
  ASSERT_EQ(files_.ranks(), kRanks);
  EXPECT_THAT(epochs(), ElementsAre());
  write("e.1.m0", 7, 0);
  EXPECT_GE(files_.bytes(), 24 << 20);
  ASSERT_THAT(epochs(), ElementsAre("e.1.m0"));
  // As a process that has inherited them knows them.
  const MemoryFiles inherited = MemoryFiles::inherited(files_.to_text(), "V");
  const CheckpointReader reader(files_in_memory(inherited, "e.1.m0"));
  EXPECT_EQ(reader.manifest().iteration, 7);
  EXPECT_TRUE(reader.is_in_memory());
  const auto bytes = testing_support::bytes_of(reader, reader.manifest().tensors.front());
  ASSERT_EQ(std::ssize(bytes), 2 * kColumns * 4);
  const auto value_at = [&](std::int64_t element) {
    float value = 0;
    std::memcpy(&value, bytes.data() + element * 4, 4);
    return value;
  };
  EXPECT_EQ(value_at(0), 70.0F);
  EXPECT_EQ(value_at(2 * kColumns - 1), 71.0F);
}

TEST_F(MemoryFilesTest, TheNewestThatAllRanksHaveComesFirst) {
  write("e.1.m0", 7, 0);
  write("e.1.m1", 8, 1);
  EXPECT_THAT(epochs(), ElementsAre("e.1.m1", "e.1.m0"));
  // A rank is killed while it writes the next one: what lay there is gone, and nothing torn is
  // seen.
  for (int killed = 0; killed < kRanks; ++killed) {
    write("e.1.m0", 7, 0);
    write("e.1.m2", 9, 0, killed);
    EXPECT_THAT(epochs(), ElementsAre("e.1.m1")) << killed;
    EXPECT_THAT(error_of<InputMissingError>([&] { files_in_memory(files_, "e.1.m2"); }),
                HasSubstr("is not there"));
  }
}

// A header of which only a part was written.
TEST_F(MemoryFilesTest, ATornHeaderIsNone) {
  write("e.1.m0", 7, 0);
  const int descriptor = files_.descriptor(0, 0);
  char byte = 0;
  for (const off_t at : {30, 60, 200}) {
    ASSERT_EQ(::pread(descriptor, &byte, 1, at), 1);
    const char other = static_cast<char>(byte ^ 1);
    ASSERT_EQ(::pwrite(descriptor, &other, 1, at), 1);
    EXPECT_THAT(epochs(), ElementsAre()) << at;
    ASSERT_EQ(::pwrite(descriptor, &byte, 1, at), 1);
  }
  EXPECT_THAT(epochs(), ElementsAre("e.1.m0"));
}

// Memory that was overwritten by something else: found when it is read.
TEST_F(MemoryFilesTest, DamagedDataIsFound) {
  write("e.1.m0", 7, 0);
  const int descriptor = files_.descriptor(1, 0);
  const char other = 77;
  ASSERT_EQ(::pwrite(descriptor, &other, 1, 1 << 20), 1);
  EXPECT_THAT(error_of<DataError>([&] { CheckpointReader(files_in_memory(files_, "e.1.m0")); }),
              AllOf(HasSubstr("part-00001.bin in the memory of phalanx launch (snapshot e.1.m0)"),
                    HasSubstr("block 0 is damaged")));
}

TEST_F(MemoryFilesTest, WrongDescriptorsAreNamed) {
  for (const char* text : {"9999", "x", "1,,2", "0"}) {
    EXPECT_THAT(error_of<UsageError>([&] { MemoryFiles::inherited(text, "VARIABLE"); }),
                HasSubstr("VARIABLE="))
        << text;
  }
  const std::string three = fmt::format("{0},{0},{0}", files_.descriptor(0, 0));
  EXPECT_THAT(error_of<UsageError>([&] { MemoryFiles::inherited(three, "V"); }),
              HasSubstr("2 memory files for each rank"));
}

}  // namespace
}  // namespace phalanx
