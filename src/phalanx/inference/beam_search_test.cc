#include "phalanx/inference/beam_search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "phalanx/inference/test_sequence_model.h"

namespace phalanx {
namespace {

constexpr std::int64_t kVocabulary = 4;
constexpr std::int32_t kEnd = 3;
const std::vector<std::int32_t> kPrompt = {2, 0};

bool always() { return true; }

BeamAnswer search(int beams, std::int64_t most, BeamOptions options, std::int64_t capacity = 20) {
  MadeUpModel model(kVocabulary, beams, capacity);
  options.beams = beams;
  GenerationRates rates;
  return beam_search(model, kPrompt, most, options, rates, always);
}

// The best of all answers of at most `most` tokens, found by trying each of them.
void try_all(const MadeUpModel& model, std::vector<std::int32_t> tokens, double score,
             std::int64_t most, double length_penalty, BeamAnswer& best) {
  const std::int64_t made = std::ssize(tokens) - std::ssize(kPrompt);
  const bool ended = made > 0 && tokens.back() == kEnd;
  if (ended || made == most) {
    const double final = score / std::pow(static_cast<double>(made), length_penalty);
    if (final > best.score || best.tokens.empty()) {
      best = {.tokens = {tokens.begin() + std::ssize(kPrompt), tokens.end()},
              .score = final,
              .ended = ended};
    }
    return;
  }
  const std::vector<double> next = model.log_probabilities(tokens);
  for (std::int32_t id = 0; id < kVocabulary; ++id) {
    std::vector<std::int32_t> longer = tokens;
    longer.push_back(id);
    try_all(model, longer, score + next[static_cast<std::size_t>(id)], most, length_penalty, best);
  }
}

// With a beam for every possible beginning the search finds the best answer.
TEST(BeamSearch, WithEnoughBeamsFindsTheBest) {
  for (const double penalty : {0.0, 1.0, 2.0}) {
    for (const std::int64_t most : {1, 3, 5}) {
      const MadeUpModel model(kVocabulary, 1, 20);
      BeamAnswer best;
      try_all(model, kPrompt, 0.0, most, penalty, best);
      // Only continuations among the best become answers, so there must be room for all of them.
      const auto beams = static_cast<int>(std::pow(kVocabulary, most));
      // A longer answer may score better than every unfinished one does now.
      const BeamAnswer found =
          search(beams, most, {.length_penalty = penalty, .end_tokens = {kEnd}});
      EXPECT_EQ(found.tokens, best.tokens) << penalty << " " << most;
      EXPECT_NEAR(found.score, best.score, 1e-5);
      EXPECT_EQ(found.ended, best.ended);
    }
  }
}

TEST(BeamSearch, OneBeamIsGreedy) {
  const BeamAnswer found = search(1, 6, {});
  const MadeUpModel model(kVocabulary, 1, 20);
  std::vector<std::int32_t> tokens = kPrompt;
  for (int i = 0; i < 6; ++i) {
    const auto logits = model.logits(tokens);
    tokens.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  EXPECT_EQ(found.tokens, (std::vector<std::int32_t>{tokens.begin() + 2, tokens.end()}));
  EXPECT_FALSE(found.ended);
}

TEST(BeamSearch, EndsAtTheCapacityAndWhenItIsTold) {
  EXPECT_EQ(search(2, 50, {}, 6).tokens.size(), 5U);  // four that can be read, and one behind
  MadeUpModel model(kVocabulary, 2, 20);
  GenerationRates rates;
  int asked = 0;
  const BeamAnswer found = beam_search(model, kPrompt, 10, {.beams = 2, .end_tokens = {}}, rates,
                                       [&] { return ++asked <= 3; });
  EXPECT_EQ(found.tokens.size(), 3U);
  EXPECT_EQ(rates.prompt_tokens, 2);
}

// More beams never make the best answer worse.
TEST(BeamSearch, EarlyStoppingEndsWithTheFirstAnswers) {
  const BeamOptions options{.end_tokens = {0, kEnd}};
  BeamOptions early = options;
  early.early_stopping = true;
  const BeamAnswer late = search(3, 10, options);
  const BeamAnswer first = search(3, 10, early);
  EXPECT_GE(late.score, first.score);
  EXPECT_TRUE(first.ended);
}

}  // namespace
}  // namespace phalanx
