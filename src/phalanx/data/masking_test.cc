#include "phalanx/data/masking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "phalanx/data/toy_corpus.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ids = std::vector<std::int32_t>;

struct Outcome {
  Ids tokens;
  std::vector<Ids> spans;
  Ids labels;
  double next = 0.0;  // what the generator draws next
};

Outcome mask(Ids tokens, std::int64_t target, double probability, MaskingRule rule,
             std::uint32_t seed) {
  const Masker masker(testing::toy_vocabulary(), rule, probability);
  NumpyRandom random(seed);
  MaskedSpans masked;
  masked.positions = {99};  // of the sample before
  masker.mask(tokens, target, random, masked);
  Outcome outcome{
      .tokens = tokens, .spans = {}, .labels = masked.labels, .next = random.random_sample()};
  for (std::size_t k = 0; k < masked.ends.size(); ++k) {
    const auto span = masked.span_of(masked.positions, k);
    outcome.spans.emplace_back(span.begin(), span.end());
  }
  return outcome;
}

// The piece 7 goes on with the word before the [SEP].
TEST(Masking, AWordAcrossASeparator) {
  const Outcome outcome = mask({2, 5, 6, 3, 7, 11, 8, 9, 3}, 8, 0.5, MaskingRule::kBert, 3);
  EXPECT_THAT(outcome.tokens, ElementsAre(2, 5, 4, 3, 4, 4, 8, 4, 3));
  EXPECT_THAT(outcome.spans, ElementsAre(Ids{2, 4, 5}, Ids{7}));
  EXPECT_THAT(outcome.labels, ElementsAre(6, 7, 11, 9));
  EXPECT_EQ(outcome.next, 0.6948236527284697);
}

TEST(Masking, ARunOfWordsAcrossASeparator) {
  const Outcome outcome =
      mask({2, 5, 6, 9, 3, 8, 10, 12, 13, 14, 16, 17, 18, 3}, 12, 0.5, MaskingRule::kBert, 5);
  EXPECT_THAT(outcome.tokens, ElementsAre(2, 5, 6, 4, 3, 4, 10, 4, 13, 14, 27, 4, 4, 3));
  EXPECT_THAT(outcome.spans, ElementsAre(Ids{3, 5}, Ids{7}, Ids{10, 11, 12}));
  EXPECT_THAT(outcome.labels, ElementsAre(9, 8, 12, 16, 17, 18));
  EXPECT_EQ(outcome.next, 0.8924110171617035);
}

TEST(Masking, T5) {
  const Outcome outcome =
      mask({5, 6, 7, 8, 9, 10, 11, 15, 12, 13, 14, 16}, 12, 0.4, MaskingRule::kT5, 3);
  EXPECT_THAT(outcome.tokens, ElementsAre(5, 6, 7, 4, 9, 10, 11, 15, 12, 4, 4, 4));
  EXPECT_THAT(outcome.spans, ElementsAre(Ids{3}, Ids{9, 10, 11}));
  EXPECT_THAT(outcome.labels, ElementsAre(8, 13, 14, 16));
  EXPECT_EQ(outcome.next, 0.40236064355895806);
}

// Nothing is masked, and all is drawn all the same: an order, a run for each word, an order.
TEST(Masking, ATargetBelowOneTokenMasksNothing) {
  const Outcome outcome = mask({2, 5, 3, 6, 3}, 2, 0.15, MaskingRule::kBert, 9);
  EXPECT_THAT(outcome.tokens, ElementsAre(2, 5, 3, 6, 3));
  EXPECT_THAT(outcome.spans, IsEmpty());
  EXPECT_THAT(outcome.labels, IsEmpty());
  NumpyRandom random(9);
  Ids order{0, 1};
  random.shuffle(std::span(order));
  random.random_sample();
  random.random_sample();
  random.shuffle(std::span(order));
  EXPECT_EQ(outcome.next, random.random_sample());
}

TEST(Masking, NoWords) {
  EXPECT_THAT(mask({2, 3}, 20, 0.5, MaskingRule::kBert, 1).spans, IsEmpty());
  EXPECT_THAT(mask({}, 20, 0.5, MaskingRule::kT5, 1).spans, IsEmpty());
}

// Any tokens: spans are disjoint whole words within the limit, and only they have changed.
TEST(Masking, SpansAreWholeWordsWithinTheLimit) {
  const auto vocabulary = testing::toy_vocabulary();
  int masks = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const auto rule = seed % 2 == 0 ? MaskingRule::kBert : MaskingRule::kT5;
    const double probability = 0.05 + 0.1 * (seed % 5);
    Ids tokens(8 + seed % 50);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] =
          5 + static_cast<std::int32_t>(testing::mix(static_cast<std::uint32_t>(i), seed) % 35);
    }
    const auto target = std::ssize(tokens);
    const Outcome outcome = mask(tokens, target, probability, rule, seed);
    std::vector<bool> is_masked(tokens.size());
    std::size_t count = 0;
    for (const Ids& span : outcome.spans) {
      EXPECT_TRUE(std::ranges::is_sorted(span));
      for (const auto place : span) {
        EXPECT_FALSE(is_masked[static_cast<std::size_t>(place)]);
        is_masked[static_cast<std::size_t>(place)] = true;
        EXPECT_EQ(outcome.labels[count], tokens[static_cast<std::size_t>(place)]);
        masks += outcome.tokens[static_cast<std::size_t>(place)] == 4 ? 1 : 0;
        ++count;
      }
    }
    EXPECT_EQ(outcome.labels.size(), count);
    const double share = probability * static_cast<double>(target);
    EXPECT_LE(static_cast<double>(count), std::max(1.0, std::nearbyint(share)));
    EXPECT_LE(static_cast<double>(count), share);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_TRUE(is_masked[i] || outcome.tokens[i] == tokens[i]);
      const bool goes_on = vocabulary->continues[static_cast<std::size_t>(tokens[i])] != 0;
      EXPECT_TRUE(i == 0 || !goes_on || is_masked[i] == is_masked[i - 1]) << seed << " " << i;
    }
  }
  EXPECT_GT(masks, 500);
}

}  // namespace
}  // namespace phalanx
