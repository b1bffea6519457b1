#include "phalanx/data/indexed_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "phalanx/corpus/dataset_info.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three sequences of 2, 3 and 1 tokens of u16; documents {0, 1}, {} and {2}.
std::string small_index() {
  const auto put = [](std::string& text, auto value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  std::string text("MMIDIDX\0\0", 9);
  put(text, std::uint64_t{1});
  put(text, std::uint8_t{8});
  put(text, std::uint64_t{3});
  put(text, std::uint64_t{4});
  for (const std::int32_t length : {2, 3, 1}) put(text, length);
  for (const std::int64_t offset : {0, 4, 10}) put(text, offset);
  for (const std::int64_t boundary : {0, 2, 2, 3}) put(text, boundary);
  return text;
}
const std::string kSmallBin("\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\xff\xff", 12);
constexpr std::size_t kLengthsAt = 34;
constexpr std::size_t kOffsetsAt = 34 + 12;
constexpr std::size_t kBoundariesAt = 34 + 12 + 24;

class MalformedDataset : public ::testing::Test {
 protected:
  void write(const std::string& idx, const std::string& bin = kSmallBin) const {
    put_file(prefix() + ".idx", idx);
    put_file(prefix() + ".bin", bin);
  }
  std::string prefix() const { return directory_ / "d"; }
  // The message about the small index with one value in place of another.
  template <typename T>
  std::string refusal(std::size_t at, T value) const {
    auto idx = small_index();
    std::memcpy(idx.data() + at, &value, sizeof(value));
    return refusal_of(idx);
  }
  std::string refusal_of(const std::string& idx, const std::string& bin = kSmallBin) const {
    write(idx, bin);
    const auto message = error_of(ErrorCode::kBadData, [&] { IndexedDataset{prefix()}; });
    EXPECT_THAT(message, HasSubstr(prefix()));
    return message;
  }
  TemporaryDirectory directory_;
};

TEST_F(MalformedDataset, TheSmallOneIsGood) {
  write(small_index());
  const IndexedDataset data(prefix());
  EXPECT_EQ(data.sequences(), 3);
  EXPECT_EQ(data.documents(), 3);
  EXPECT_EQ(data.tokens(), 6);
  EXPECT_EQ(data.length(1), 3);
  EXPECT_EQ(data.document_begin(1), 2);
  EXPECT_FALSE(data.has_modes());
  std::vector<std::int32_t> ids(2);
  data.get(1, 1, ids);
  EXPECT_THAT(ids, ElementsAre(4, 5));
  std::vector<std::int64_t> wide(1);
  data.get(2, 0, wide);
  EXPECT_THAT(wide, ElementsAre(65535));
}

TEST_F(MalformedDataset, TruncatedAnywhere) {
  const auto idx = small_index();
  for (std::size_t size = 0; size < idx.size(); ++size) refusal_of(idx.substr(0, size));
  for (std::size_t size = 0; size < kSmallBin.size(); ++size) {
    EXPECT_THAT(refusal_of(idx, kSmallBin.substr(0, size)), HasSubstr("is outside"));
  }
}

TEST_F(MalformedDataset, ModesAreAllOrNone) {
  const auto idx = small_index();
  for (std::size_t extra = 1; extra < 12; ++extra) {
    if (extra == 3) continue;
    EXPECT_THAT(refusal_of(idx + std::string(extra, '\0')), HasSubstr("modes"));
  }
  write(idx + std::string(3, '\0'));
  EXPECT_TRUE(IndexedDataset(prefix()).has_modes());
}

TEST_F(MalformedDataset, Header) {
  EXPECT_THAT(refusal(0, 'X'), HasSubstr("MMIDIDX"));
  EXPECT_THAT(refusal(8, 'X'), HasSubstr("MMIDIDX"));
  EXPECT_THAT(refusal(9, std::uint64_t{2}), HasSubstr("version 2"));
  EXPECT_THAT(refusal(17, std::uint8_t{0}), HasSubstr("dtype code 0"));
  EXPECT_THAT(refusal(17, std::uint8_t{6}), HasSubstr("floating point"));
  EXPECT_THAT(refusal(17, std::uint8_t{9}), HasSubstr("dtype code 9"));
}

TEST_F(MalformedDataset, LyingCounts) {
  constexpr std::uint64_t kOne = 1;
  // The last but one overflows to a small number when multiplied by the 12 bytes of a sequence.
  const std::vector<std::uint64_t> sequences{0,    2, 4, kOne << 32, kOne << 60, 0x1555555555555556,
                                             ~0ULL};
  for (const auto count : sequences) refusal(18, count);
  const std::vector<std::uint64_t> boundaries{0, 3, 5, kOne << 61, ~0ULL};
  for (const auto count : boundaries) refusal(26, count);
}

// No sequences need one boundary, the 0 that begins and ends.
TEST_F(MalformedDataset, EmptyDatasets) {
  auto header = small_index().substr(0, kIndexHeaderBytes);
  header.replace(18, 16, 16, '\0');
  EXPECT_THAT(refusal_of(header, ""), HasSubstr("0 document boundaries"));
  header[26] = 1;
  write(header + std::string(8, '\0'), "");
  EXPECT_EQ(IndexedDataset(prefix()).documents(), 0);
}

TEST_F(MalformedDataset, Lengths) {
  EXPECT_THAT(refusal(kLengthsAt, std::int32_t{-1}), HasSubstr("sequence 0 has length -1"));
  EXPECT_THAT(refusal(kLengthsAt + 8, std::int32_t{2}), HasSubstr("sequence 2 (2 tokens"));
  refusal(kLengthsAt + 4, std::numeric_limits<std::int32_t>::max());
}

TEST_F(MalformedDataset, Offsets) {
  EXPECT_THAT(refusal(kOffsetsAt, std::int64_t{-2}), HasSubstr("sequence 0"));
  EXPECT_THAT(refusal(kOffsetsAt + 16, std::int64_t{11}), HasSubstr("sequence 2"));
  EXPECT_THAT(refusal(kOffsetsAt + 16, std::int64_t{12}), HasSubstr("sequence 2"));
  refusal(kOffsetsAt + 8, std::numeric_limits<std::int64_t>::max());
  refusal(kOffsetsAt + 8, std::numeric_limits<std::int64_t>::min());
}

TEST_F(MalformedDataset, Boundaries) {
  EXPECT_THAT(refusal(kBoundariesAt, std::int64_t{1}), HasSubstr("first document boundary is 1"));
  EXPECT_THAT(refusal(kBoundariesAt + 8, std::int64_t{3}), HasSubstr("boundary 2 is 2, below"));
  EXPECT_THAT(refusal(kBoundariesAt + 16, std::int64_t{-1}), HasSubstr("boundary 2 is -1, below"));
  EXPECT_THAT(refusal(kBoundariesAt + 24, std::int64_t{2}),
              HasSubstr("last document boundary is 2"));
  EXPECT_THAT(refusal(kBoundariesAt + 24, std::int64_t{4}),
              HasSubstr("last document boundary is 4"));
}

TEST_F(MalformedDataset, MissingFiles) {
  const auto open = [&] { IndexedDataset{prefix()}; };
  EXPECT_THAT(error_of(ErrorCode::kInputMissing, open), HasSubstr("d.idx: no such file"));
  put_file(prefix() + ".idx", small_index());
  EXPECT_THAT(error_of(ErrorCode::kInputMissing, open), HasSubstr("d.bin: no such file"));
}

TEST_F(MalformedDataset, WhatIsMeantIsToldWhereFilesAreMissing) {
  EXPECT_THAT(missing_dataset(prefix()), HasSubstr("(a data path is what PREFIX.bin and"));
  put_file(prefix(), "a text\n");
  EXPECT_THAT(missing_dataset(prefix()), HasSubstr("d is a file: phalanx preprocess-data makes"));
  for (const char* part : {".idx", ".bin"}) put_file(prefix() + "_text_document" + part, "");
  EXPECT_THAT(missing_dataset(prefix()), HasSubstr("d_text_document is there"));
  EXPECT_THAT(missing_dataset(prefix() + "_text_document.bin"), HasSubstr("without .bin"));
  EXPECT_EQ(missing_dataset(prefix() + "_text_document"), "");
}

// Whatever the index says, a dataset either is refused or can be read everywhere it says.
TEST_F(MalformedDataset, MutationsAreRefusedOrReadSafely) {
  std::mt19937 random(7);
  const auto good = small_index();
  int refused = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    auto idx = good;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      const auto at = random() % idx.size();
      switch (random() % 4) {
        case 0:
          idx[at] = static_cast<char>(idx[at] ^ (1 << random() % 8));
          break;
        case 1:
          idx[at] = static_cast<char>(random());
          break;
        case 2:
          idx.resize(1 + random() % idx.size());
          break;
        default:
          idx.append(random() % 16, static_cast<char>(random() % 4));
      }
    }
    write(idx);
    try {
      const IndexedDataset data(prefix());
      dataset_info(data);
      token_id_range(data);
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code(), ErrorCode::kBadData) << error.what();
    }
  }
  EXPECT_GT(refused, kRounds / 2);
  EXPECT_LT(refused, kRounds);
}

TEST(IndexedDataset, EveryTokenType) {
  const TemporaryDirectory directory;
  const auto prefix = directory / "d";
  const std::vector<std::int32_t> ids{0, 1, 127, 5, 6};
  for (const auto type : {TokenType::kU8, TokenType::kI8, TokenType::kI16, TokenType::kU16,
                          TokenType::kI32, TokenType::kI64}) {
    IndexedDatasetWriter writer(prefix, type);
    writer.add_sequence(ids);
    writer.end_document();
    writer.commit();
    const IndexedDataset data(prefix);
    EXPECT_EQ(data.type(), type);
    EXPECT_EQ(data.bin_bytes(), 5 * size_of(type)) << name_of(type);
    std::vector<std::int32_t> narrow(5);
    std::vector<std::int64_t> wide(5);
    data.get(0, 0, narrow);
    data.get(0, 0, wide);
    EXPECT_EQ(narrow, ids) << name_of(type);
    EXPECT_THAT(wide, ElementsAre(0, 1, 127, 5, 6)) << name_of(type);
  }
}

TEST(IndexedDataset, IdsBeyond32Bits) {
  const TemporaryDirectory directory;
  const auto prefix = directory / "d";
  testing::write_counting_dataset(prefix, {1}, TokenType::kI64);
  put_file(prefix + ".bin", std::string("\0\0\0\0\1\0\0\0", 8));
  const IndexedDataset data(prefix);
  std::vector<std::int64_t> wide(1);
  data.get(0, 0, wide);
  EXPECT_EQ(wide[0], std::int64_t{1} << 32);
  std::vector<std::int32_t> narrow(1);
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { data.get(0, 0, narrow); }),
              HasSubstr("token 0 of sequence 0 is 4294967296"));
}

TEST(IndexedDataset, ReadingOutsideASequenceIsAProgrammersError) {
  const TemporaryDirectory directory;
  testing::write_counting_dataset(directory / "d", {3, 3});
  const IndexedDataset data(directory / "d");
  std::vector<std::int32_t> ids(2);
  error_of(ErrorCode::kInternal, [&] { data.get(0, 2, ids); });
  error_of(ErrorCode::kInternal, [&] { data.get(0, -1, ids); });
  error_of(ErrorCode::kInternal, [&] { data.get(2, 0, ids); });
  error_of(ErrorCode::kInternal, [&] { data.get(-1, 0, ids); });
}

TEST(DatasetInfo, Counts) {
  const TemporaryDirectory directory;
  const auto prefix = directory / "d";
  put_file(prefix + ".idx", small_index());
  put_file(prefix + ".bin", kSmallBin);
  const IndexedDataset data(prefix);
  const auto info = dataset_info(data);
  EXPECT_EQ(info.sequences, 3);
  EXPECT_EQ(info.documents, 3);
  EXPECT_EQ(info.empty_documents, 1);
  EXPECT_EQ(info.tokens, 6);
  EXPECT_EQ(info.type, TokenType::kU16);
  EXPECT_EQ(info.bin_bytes, 12);
  EXPECT_EQ(info.idx_bytes, 102);
  EXPECT_EQ(info.shortest_sequence, 1);
  EXPECT_EQ(info.longest_sequence, 3);
  EXPECT_EQ(token_id_range(data).smallest, 1);
  EXPECT_EQ(token_id_range(data).largest, 65535);
  check_token_ids(data, 65536);
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { check_token_ids(data, 5); }),
              HasSubstr("token 2 of sequence 1 is 5"));
}

}  // namespace
}  // namespace phalanx
