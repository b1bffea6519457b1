#include "phalanx/corpus/dataset_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "phalanx/corpus/dataset_info.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A dataset of one-byte ids with these lengths, one sequence a document, whose .bin is a hole.
void write_sparse_dataset(const std::string& prefix, const std::vector<std::int32_t>& lengths) {
  IndexArrays index;
  for (const auto length : lengths) {
    index.add_sequence(length);
    index.end_document();
  }
  std::ofstream idx(idx_path(prefix), std::ios::binary);
  index.write(TokenType::kU8, [&](std::span<const std::byte> bytes) {
    idx.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  });
  std::ofstream(bin_path(prefix)).close();
  std::filesystem::resize_file(bin_path(prefix), static_cast<std::uintmax_t>(index.tokens()));
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

// More bytes than 32 bits count, in each of the datasets and in their sum: files without contents.
TEST(IndexArrays, CountInSixtyFourBits) {
  const TemporaryDirectory directory;
  constexpr std::int32_t kLong = 2'147'483'647;
  write_sparse_dataset(directory / "a", {kLong, kLong, kLong});
  write_sparse_dataset(directory / "b", {5, kLong, kLong});
  IndexArrays merged;
  for (const char* name : {"a", "b"}) {
    const IndexedDataset part(directory / name);
    check_layout(part);
    merged.append(part);
  }
  constexpr std::int64_t kTokens = std::int64_t{5} * kLong + 5;
  EXPECT_EQ(merged.tokens(), kTokens);
  EXPECT_EQ(merged.documents(), 6);
  std::vector<std::byte> bytes;
  merged.write(TokenType::kI32, [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  std::vector<std::int64_t> offsets(6);
  std::memcpy(offsets.data(), bytes.data() + kIndexHeaderBytes + 6 * 4, 6 * 8);
  EXPECT_THAT(offsets, ElementsAre(0, std::int64_t{4} * kLong, std::int64_t{8} * kLong,
                                   std::int64_t{12} * kLong, std::int64_t{12} * kLong + 20,
                                   std::int64_t{16} * kLong + 20));
  std::vector<std::int64_t> boundaries(7);
  std::memcpy(boundaries.data(), bytes.data() + kIndexHeaderBytes + 6 * 12, 7 * 8);
  EXPECT_THAT(boundaries, ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(DatasetsIn, ListsPairsByName) {
  const TemporaryDirectory directory;
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { datasets_in(directory / "."); }),
              HasSubstr("no dataset"));
  for (const char* name : {"b", "a", "a-c", "a.1"}) {
    testing::write_counting_dataset(directory / name, {3});
  }
  put_file(directory / "notes.txt", "x");
  const auto found = datasets_in(directory / "");
  EXPECT_THAT(found,
              ElementsAre(directory / "a", directory / "a-c", directory / "a.1", directory / "b"));
  for (const char* gone : {"a-c.bin", "b.idx"}) {
    std::filesystem::rename(directory / gone, directory / "x");
    EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { datasets_in(directory / ""); }),
                HasSubstr(gone));
    std::filesystem::rename(directory / "x", directory / gone);
  }
  error_of(ErrorCode::kIo, [&] { datasets_in(directory / "nowhere"); });
}

TEST(CheckLayout, SequencesLieOneBehindAnother) {
  const TemporaryDirectory directory;
  testing::write_counting_dataset(directory / "d", {3, 0, 4});
  check_layout(IndexedDataset(directory / "d"));
  std::string idx = read_file(directory / "d.idx");
  const std::size_t third = kIndexHeaderBytes + 3 * 4 + 2 * 8;
  ASSERT_EQ(idx[third], 12);
  idx[third] = 8;
  put_file(directory / "d.idx", idx);
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { check_layout(IndexedDataset(directory / "d")); }),
              HasSubstr("sequence 2 begins at byte 8"));
  idx[third] = 12;
  put_file(directory / "d.idx", idx);
  put_file(directory / "d.bin", read_file(directory / "d.bin") + "x");
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { check_layout(IndexedDataset(directory / "d")); }),
              HasSubstr("ends at byte 28, the file at byte 29"));
}

// What does not lie in order is copied as it is meant.
TEST(MergeDatasets, SequencesMayLieAnywhere) {
  const TemporaryDirectory directory;
  testing::write_counting_dataset(directory / "d", {2, 3});
  std::string idx = read_file(directory / "d.idx");
  const std::size_t offsets = kIndexHeaderBytes + 2 * 4;
  idx[offsets] = 4;
  idx[offsets + 8] = 0;
  put_file(directory / "d.idx", idx);
  merge_datasets(std::vector<std::string>{directory / "d"}, directory / "m");
  const IndexedDataset merged(directory / "m");
  std::vector<std::int32_t> ids(2);
  merged.get(0, 0, ids);
  EXPECT_THAT(ids, ElementsAre(1, 2));
  ids.resize(3);
  merged.get(1, 0, ids);
  EXPECT_THAT(ids, ElementsAre(0, 1, 2));
}

TEST(DatasetInfo, CountsSequencesOfDocuments) {
  const TemporaryDirectory directory;
  IndexedDatasetWriter writer(directory / "d", TokenType::kU16);
  for (const int sequences : {2, 0, 5}) {
    for (int i = 0; i < sequences; ++i) writer.add_sequence(std::vector<std::int32_t>{1, 2});
    writer.end_document();
  }
  writer.commit();
  const auto info = dataset_info(IndexedDataset(directory / "d"));
  EXPECT_EQ(info.fewest_sequences, 0);
  EXPECT_EQ(info.most_sequences, 5);
  EXPECT_EQ(info.empty_documents, 1);
  EXPECT_EQ(info.shortest_sequence, 2);
}

}  // namespace
}  // namespace phalanx
