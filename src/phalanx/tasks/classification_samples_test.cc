#include "phalanx/tasks/classification_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/tasks/test_support.h"
#include "phalanx/tokenizer/registry.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

constexpr std::int32_t kCls = 1, kSep = 2;

std::vector<std::int32_t> encoded(const std::vector<std::int32_t>& a,
                                  const std::vector<std::int32_t>& b, bool has_b,
                                  std::int64_t sequence, std::int64_t first_of_b) {
  const EncodedPair pair =
      encode_pair(a, b, has_b, ClassificationTokens(LetterTokenizer()), sequence);
  EXPECT_EQ(pair.first_of_b, first_of_b);
  return pair.tokens;
}

// The values are those of build_tokens_types_paddings_from_ids() of Megatron-LM.
TEST(EncodePair, IsMegatrons) {
  EXPECT_THAT(encoded({5, 6}, {7, 8, 9}, true, 10, 4),
              ElementsAre(kCls, 5, 6, kSep, 7, 8, 9, kSep));
  EXPECT_THAT(encoded({5, 6}, {7, 8, 9}, true, 8, 4), ElementsAre(kCls, 5, 6, kSep, 7, 8, 9, kSep));
  EXPECT_THAT(encoded({5, 6}, {7, 8, 9}, true, 7, 4), ElementsAre(kCls, 5, 6, kSep, 7, 8, kSep));
  // Of B only its [SEP] is left, which is within A's tokens and has type 1.
  EXPECT_THAT(encoded({5, 6}, {7, 8, 9}, true, 5, 4), ElementsAre(kCls, 5, 6, kSep, kSep));
  EXPECT_THAT(encoded({5, 6}, {7, 8, 9}, true, 4, 3), ElementsAre(kCls, 5, 6, kSep));
  EXPECT_THAT(encoded({5, 6}, {7, 8, 9}, true, 3, 2), ElementsAre(kCls, 5, kSep));
  EXPECT_THAT(encoded({5, 6}, {}, false, 9, 4), ElementsAre(kCls, 5, 6, kSep));
  EXPECT_THAT(encoded({5, 6}, {}, false, 5, 4), ElementsAre(kCls, 5, 6, kSep));
  // A sample of exactly the sequence's length is cut too: its [SEP] is replaced by another.
  EXPECT_THAT(encoded({5, 6}, {}, false, 4, 4), ElementsAre(kCls, 5, 6, kSep));
  EXPECT_THAT(encoded({5, 6}, {}, false, 3, 3), ElementsAre(kCls, 5, kSep));
}

TEST(EncodePair, SaysWhetherTextIsLost) {
  const auto is_cut = [](const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b,
                         std::int64_t sequence) {
    return encode_pair(a, b, !b.empty(), ClassificationTokens(LetterTokenizer()), sequence).is_cut;
  };
  EXPECT_FALSE(is_cut({5, 6}, {}, 4));
  EXPECT_TRUE(is_cut({5, 6}, {}, 3));
  EXPECT_FALSE(is_cut({5, 6}, {7, 8, 9}, 8));
  EXPECT_TRUE(is_cut({5, 6}, {7, 8, 9}, 7));
}

TEST(ClassificationSamples, FillTheColumns) {
  const LabelledTexts texts{
      .path = "t", .texts = {{"ab", "c", 1, 1}, {"d", "efghij", 0, 2}}, .has_pairs = true};
  const ClassificationSamples source(texts, LetterTokenizer(), 7);
  ASSERT_EQ(source.size(), 2);
  const BatchSchema& schema = source.schema();
  Sample sample(schema);
  std::vector<double> counts(1);
  const auto column = [&](const char* name) {
    const auto values = sample.column<std::int32_t>(schema.index(name));
    return std::vector<std::int32_t>(values.begin(), values.end());
  };
  constexpr std::int32_t kA = LetterTokenizer::kFirst + 'a';
  source.fetch(1, sample, counts);
  EXPECT_THAT(column("tokens"), ElementsAre(kCls, kA + 3, kSep, kA + 4, kA + 5, kA + 6, kSep));
  EXPECT_THAT(column("types"), ElementsAre(0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(column("document"), ElementsAre(0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(column("label"), ElementsAre(0));
  source.fetch(0, sample, counts);
  EXPECT_THAT(column("tokens"), ElementsAre(kCls, kA, kA + 1, kSep, kA + 2, kSep, 0));
  EXPECT_THAT(column("types"), ElementsAre(0, 0, 0, 0, 1, 1, 0));
  EXPECT_THAT(column("document"), ElementsAre(0, 0, 0, 0, 0, 0, -1));
  EXPECT_THAT(column("position_ids"), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(column("position"), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(column("label"), ElementsAre(1));
  EXPECT_EQ(sample.column<float>(schema.index("loss_mask"))[0], 1.0F);
  EXPECT_EQ(counts[0], 1.0);
}

TEST(ClassificationSamples, NeedABertsTokens) {
  const auto tokenizer = make_tokenizer({.tokenizer_type = "NullTokenizer", .vocab_size = 48});
  const LabelledTexts texts{.path = "t", .texts = {{"1", "", 0, 1}}};
  EXPECT_THROW(ClassificationSamples(texts, *tokenizer, 7), ConfigError);
}

}  // namespace
}  // namespace phalanx
