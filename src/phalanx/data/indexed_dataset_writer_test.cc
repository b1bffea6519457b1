#include "phalanx/data/indexed_dataset_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

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

TEST(IndexedDatasetWriter, ABlockIsTheSameAsItsSequences) {
  const TemporaryDirectory directory;
  const std::vector<std::vector<std::int32_t>> sequences{{1, 2}, {65535}, {}, {7, 7, 7}};
  for (const auto type : {TokenType::kU16, TokenType::kI32, TokenType::kI64}) {
    IndexedDatasetWriter one(directory / "one", type);
    IndexedDatasetWriter other(directory / "other", type);
    SequenceBlock block(type);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      one.add_sequence(sequences[i]);
      block.add_sequence(sequences[i]);
      if (i % 2 == 0) continue;
      one.end_document();
      block.end_document();
      one.end_document();
      block.end_document();
      other.add_block(std::exchange(block, SequenceBlock(type)));
    }
    one.commit();
    other.finish();
    EXPECT_FALSE(std::filesystem::exists(directory / "other.bin"));
    other.commit();
    EXPECT_EQ(read_file(directory / "one.idx"), read_file(directory / "other.idx"));
    EXPECT_EQ(read_file(directory / "one.bin"), read_file(directory / "other.bin"));
    std::filesystem::remove(directory / "other.bin");
    std::filesystem::remove(directory / "other.idx");
  }
}

TEST(SequenceBlock, WhatDoesNotFitIsNotAdded) {
  const TemporaryDirectory directory;
  SequenceBlock block(TokenType::kU16);
  error_of(ErrorCode::kBadData, [&] { block.add_sequence(std::vector<std::int32_t>{1, 65536}); });
  block.add_sequence(std::vector<std::int32_t>{3});
  block.end_document();
  IndexedDatasetWriter writer(directory / "d", TokenType::kU16);
  writer.add_block(block);
  EXPECT_EQ(writer.tokens(), 1);
}

}  // namespace
}  // namespace phalanx
