#include "phalanx/data/indexed_dataset_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::ElementsAreArray;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

std::vector<int> bytes_of(const std::string& path) {
  const auto text = read_file(path);
  std::vector<int> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

// Written down by hand from the description of the format.
TEST(IndexedDatasetWriter, BytesAreMegatrons) {
  const TemporaryDirectory directory;
  const auto prefix = directory / "d";
  IndexedDatasetWriter writer(prefix, token_type_for_vocabulary(65499));
  writer.add_sequence(std::vector<std::int32_t>{1, 2});
  writer.add_sequence(std::vector<std::int32_t>{258});
  writer.end_document();
  writer.end_document();
  writer.add_sequence(std::vector<std::int32_t>{65498, 0, 7});
  writer.end_document();
  EXPECT_FALSE(std::filesystem::exists(prefix + ".idx"));
  writer.commit();
  EXPECT_THAT(bytes_of(prefix + ".bin"),
              ElementsAreArray({1, 0, 2, 0, 2, 1, 0xda, 0xff, 0, 0, 7, 0}));
  const std::vector<int> expected{
      0x4d, 0x4d, 0x49, 0x44, 0x49, 0x44, 0x58, 0, 0,  // magic
      1,    0,    0,    0,    0,    0,    0,    0,     // version
      8,                                               // u16
      3,    0,    0,    0,    0,    0,    0,    0,     // sequences
      4,    0,    0,    0,    0,    0,    0,    0,     // document boundaries
      2,    0,    0,    0,                             // lengths
      1,    0,    0,    0,                             //
      3,    0,    0,    0,                             //
      0,    0,    0,    0,    0,    0,    0,    0,     // byte offsets
      4,    0,    0,    0,    0,    0,    0,    0,     //
      6,    0,    0,    0,    0,    0,    0,    0,     //
      0,    0,    0,    0,    0,    0,    0,    0,     // boundaries
      2,    0,    0,    0,    0,    0,    0,    0,     //
      2,    0,    0,    0,    0,    0,    0,    0,     //
      3,    0,    0,    0,    0,    0,    0,    0};
  EXPECT_EQ(bytes_of(prefix + ".idx"), expected);
}

TEST(IndexedDatasetWriter, TokenTypeFollowsTheVocabulary) {
  EXPECT_EQ(token_type_for_vocabulary(65499), TokenType::kU16);
  EXPECT_EQ(token_type_for_vocabulary(65500), TokenType::kI32);
}

TEST(IndexedDatasetWriter, NothingAppearsWithoutCommit) {
  const TemporaryDirectory directory;
  {
    IndexedDatasetWriter writer(directory / "d", TokenType::kU16);
    writer.add_sequence(std::vector<std::int32_t>{1});
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory / "."));
}

TEST(IndexedDatasetWriter, RefusesIdsThatDoNotFit) {
  const TemporaryDirectory directory;
  IndexedDatasetWriter writer(directory / "d", TokenType::kU16);
  for (const std::int32_t id : {-1, 65536}) {
    EXPECT_THAT(
        error_of(ErrorCode::kBadData, [&] { writer.add_sequence(std::vector<std::int32_t>{id}); }),
        HasSubstr(std::to_string(id)));
  }
  error_of(ErrorCode::kCannotCreate,
           [&] { IndexedDatasetWriter(directory / "no/such/d", TokenType::kU16); });
}

TEST(IndexedDatasetWriter, LargeDataPassesTheBuffer) {
  const TemporaryDirectory directory;
  const std::vector<std::int32_t> lengths{300000, 1, 0, 700000, 40};
  testing::write_counting_dataset(directory / "d", lengths);
  const IndexedDataset data(directory / "d");
  ASSERT_EQ(data.tokens(), 1000041);
  std::vector<std::int32_t> ids(40);
  data.get(4, 0, ids);
  EXPECT_EQ(ids.front(), 1000001);
  data.get(3, 699960, ids);
  EXPECT_EQ(ids.back(), 1000000);
}

TEST(MergeDatasets, IsTheConcatenation) {
  const TemporaryDirectory directory;
  const auto write = [&](const std::string& prefix, std::vector<std::vector<std::int32_t>> parts) {
    IndexedDatasetWriter writer(prefix, TokenType::kI32);
    for (const auto& part : parts) {
      if (!part.empty()) writer.add_sequence(part);
      writer.end_document();
    }
    writer.commit();
  };
  write(directory / "a", {{1, 2, 3}, {}, {4}});
  write(directory / "b", {{}, {5, 6}});
  write(directory / "whole", {{1, 2, 3}, {}, {4}, {}, {5, 6}});
  merge_datasets(std::vector<std::string>{directory / "a", directory / "b"}, directory / "ab");
  EXPECT_EQ(read_file(directory / "ab.idx"), read_file(directory / "whole.idx"));
  EXPECT_EQ(read_file(directory / "ab.bin"), read_file(directory / "whole.bin"));
}

TEST(MergeDatasets, Refusals) {
  const TemporaryDirectory directory;
  testing::write_counting_dataset(directory / "a", {3});
  testing::write_counting_dataset(directory / "b", {3}, TokenType::kU16);
  const auto merge = [&](const std::string& second, const std::string& output) {
    merge_datasets(std::vector<std::string>{directory / "a", directory / second},
                   directory / output);
  };
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { merge("b", "c"); }), HasSubstr("one token type"));
  EXPECT_FALSE(std::filesystem::exists(directory / "c.bin"));
  EXPECT_THAT(error_of(ErrorCode::kConfiguration, [&] { merge("a", "a"); }),
              HasSubstr("cannot replace"));
  error_of(ErrorCode::kInputMissing, [&] { merge("none", "c"); });
  error_of(ErrorCode::kConfiguration, [&] { merge_datasets({}, directory / "c"); });
}

}  // namespace
}  // namespace phalanx
