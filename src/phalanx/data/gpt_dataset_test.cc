#include "phalanx/data/gpt_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kGoldenLengths;

class GptDatasetTest : public ::testing::Test {
 protected:
  GptDatasetTest() {
    testing::write_counting_dataset(directory_ / "d", kGoldenLengths);
    data_ = std::make_shared<const IndexedDataset>(directory_ / "d");
  }
  static std::vector<std::int32_t> sample(const GptDataset& dataset, std::int64_t i) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(dataset.sequence_length()) + 1);
    EXPECT_EQ(dataset.sample(i, tokens), dataset.sequence_length() + 1);
    return tokens;
  }
  TemporaryDirectory directory_;
  std::shared_ptr<const IndexedDataset> data_;
};

// Document order 7 2 9 1 0 8 4 5 6 3: every sample must be a window of those documents' tokens in a
// row.
TEST_F(GptDatasetTest, SamplesAreWindowsOfTheShuffledDocuments) {
  const GptDataset dataset(data_, {0, 10}, 70, {.sequence_length = 8, .samples = 20});
  std::vector<std::int32_t> begins{0};
  for (const auto length : kGoldenLengths) begins.push_back(begins.back() + length);
  std::vector<std::int32_t> stream;
  for (std::int64_t visit = 0; visit < dataset.index().documents.size(); ++visit) {
    const std::int64_t document = dataset.index().documents[visit];
    for (auto id = begins[document]; id < begins[document + 1]; ++id) stream.push_back(id);
  }
  ASSERT_EQ(stream.size(), 210U);
  EXPECT_EQ(dataset.size(), 26);
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const auto begin = stream.begin() + dataset.index().shuffle[i] * 8;
    EXPECT_EQ(sample(dataset, i), std::vector<std::int32_t>(begin, begin + 9)) << i;
  }
}

TEST_F(GptDatasetTest, ARangeHasItsOwnDocumentsOnly) {
  const GptDataset dataset(data_, {2, 4}, 70, {.sequence_length = 4, .samples = 50});
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    for (const auto id : sample(dataset, i)) {
      EXPECT_GE(id, 10);
      EXPECT_LT(id, 27);
    }
  }
}

TEST_F(GptDatasetTest, SequentialOrderBeginsAgain) {
  const GptDataset dataset(data_, {0, 10}, 70,
                           {.sequence_length = 8, .samples = 20, .order = DataOrder::kSequential});
  EXPECT_EQ(dataset.size(), 24);
  for (std::int32_t i = 0; i < 24; ++i) {
    std::vector<std::int32_t> expected(9);
    std::iota(expected.begin(), expected.end(), i % 8 * 8);
    EXPECT_EQ(sample(dataset, i), expected) << i;
  }
}

TEST_F(GptDatasetTest, ThePartialTailIsPadded) {
  const GptDataset dataset(
      data_, {0, 10}, 70,
      {.sequence_length = 8, .keep_partial_tail = true, .order = DataOrder::kSequential});
  EXPECT_EQ(dataset.size(), 9);
  std::vector<std::int32_t> tokens(9, -7);
  EXPECT_EQ(dataset.sample(8, tokens), 6);
  EXPECT_THAT(tokens, ElementsAre(64, 65, 66, 67, 68, 69, 0, 0, 0));
}

TEST_F(GptDatasetTest, IdsOutsideTheVocabularyAreNamed) {
  const GptDataset dataset(data_, {0, 10}, 69,
                           {.sequence_length = 69, .order = DataOrder::kSequential});
  std::vector<std::int32_t> tokens(70);
  const auto message = error_of(ErrorCode::kBadData, [&] { dataset.sample(0, tokens); });
  EXPECT_THAT(message, HasSubstr("d.bin: token 4 of sequence 9 is 69"));
  EXPECT_THAT(message, HasSubstr("vocabulary of 69"));
}

TEST_F(GptDatasetTest, NegativeIdsAreNamed) {
  IndexedDatasetWriter writer(directory_ / "n", TokenType::kI32);
  writer.add_sequence(std::vector<std::int32_t>{1, -5, 3});
  writer.end_document();
  writer.commit();
  const GptDataset dataset(std::make_shared<const IndexedDataset>(directory_ / "n"), {0, 1}, 69,
                           {.sequence_length = 2});
  std::vector<std::int32_t> tokens(3);
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { dataset.sample(0, tokens); }),
              HasSubstr("token 1 of sequence 0 is -5"));
}

TEST_F(GptDatasetTest, SamplesOutsideAreAProgrammersError) {
  const GptDataset dataset(data_, {0, 10}, 70, {.sequence_length = 8});
  std::vector<std::int32_t> tokens(9);
  error_of(ErrorCode::kInternal, [&] { dataset.sample(8, tokens); });
  error_of(ErrorCode::kInternal, [&] { dataset.sample(-1, tokens); });
}

// More tokens than 32 bits count, in a file of holes with a few tokens in it.
TEST_F(GptDatasetTest, TokensBeyond32Bits) {
  if (std::getenv("PHALANX_NIGHTLY") == nullptr) GTEST_SKIP() << "9 GB of a sparse file";
  constexpr std::int64_t kTwoTo32 = std::int64_t{1} << 32;
  constexpr std::int64_t kLength = (std::int64_t{1} << 29) + 7;  // of nine documents
  constexpr std::int64_t kTokens = 9 * kLength;
  std::ofstream idx(directory_ / "big.idx", std::ios::binary);
  const auto put = [&](const auto& value) {
    idx.write(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  idx << kIndexMagic;
  put(kIndexVersion);
  put(TokenType::kU16);
  put(std::uint64_t{9});
  put(std::uint64_t{10});
  for (int d = 0; d < 9; ++d) put(static_cast<std::int32_t>(kLength));
  for (std::int64_t d = 0; d < 9; ++d) put(d * kLength * 2);
  for (std::int64_t d = 0; d < 10; ++d) put(d);
  idx.close();
  // Token n is n's last digits where n is a multiple of 2^20 or the last one.
  std::ofstream bin(directory_ / "big.bin", std::ios::binary);
  const auto mark = [](std::int64_t n) { return static_cast<std::uint16_t>(n / 1001 % 60000 + 1); };
  for (std::int64_t n = 0; n < kTokens; n += 1 << 20) {
    const std::uint16_t token = mark(n);
    bin.seekp(2 * n);
    bin.write(reinterpret_cast<const char*>(&token), 2);
  }
  bin.close();
  std::filesystem::resize_file(directory_ / "big.bin", 2 * kTokens);
  const auto data = std::make_shared<const IndexedDataset>(directory_ / "big");
  EXPECT_EQ(data->tokens(), kTokens);
  ASSERT_GT(data->tokens(), kTwoTo32);

  constexpr std::int64_t kSequence = 1 << 20;
  const GptDataset dataset(data, {0, 9}, 65536,
                           {.sequence_length = kSequence, .order = DataOrder::kSequential});
  EXPECT_EQ(dataset.size(), (kTokens - 1) / kSequence);
  std::vector<std::int32_t> tokens(kSequence + 1);
  for (const std::int64_t i :
       {std::int64_t{0}, kTwoTo32 / kSequence - 1, kTwoTo32 / kSequence, dataset.size() - 1}) {
    EXPECT_EQ(dataset.sample(i, tokens), kSequence + 1);
    EXPECT_EQ(tokens.front(), mark(i * kSequence)) << i;
    EXPECT_EQ(tokens.back(), mark((i + 1) * kSequence)) << i;
    EXPECT_EQ(std::ranges::count(tokens, 0), kSequence - 1) << i;
  }
}

}  // namespace
}  // namespace phalanx
