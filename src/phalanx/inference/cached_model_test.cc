#include "phalanx/inference/cached_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "phalanx/base/numeric.h"
#include "phalanx/inference/sampling.h"

namespace phalanx {
namespace {

using Next = SequenceModel::Next;

struct Variant {
  bool unfused = false;
  bool bf16 = false;
  int tensor = 1;
  int sequences = 1;
};

// 320 positions, so that texts have several pieces; grouped queries.
GptConfig tiny(const Variant& variant) {
  using nn::AttentionKernel;
  GptConfig config;
  config.vocabulary = 49;
  config.padded_vocabulary = 64;
  config.max_positions = 320;
  nn::TransformerConfig& t = config.transformer;
  t.num_layers = 2;
  t.hidden = 32;
  t.ffn_hidden = 64;
  t.heads = 4;
  t.query_groups = 2;
  t.head_size = 8;
  t.init_deviation = 0.2;  // distributions that are not flat
  t.attention = variant.unfused ? AttentionKernel::kUnfused : AttentionKernel::kFused;
  t.dtype = variant.bf16 ? DType::kBF16 : DType::kF32;
  t.tensor.size = variant.tensor;
  return config;
}

std::unique_ptr<CachedModel> make_model(const Variant& variant) {
  CachedModel::Sizes sizes{.reads = {}, .capacity = 320, .sequences = variant.sequences};
  sizes.reads.resize(300);
  std::iota(sizes.reads.begin(), sizes.reads.end(), 1);
  auto model = std::make_unique<CachedModel>(tiny(variant), DeviceChoice{}, 1, sizes);
  model->initialise();
  return model;
}

std::vector<std::int32_t> text(std::size_t length, std::uint32_t seed) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < length; ++i) {
    seed = seed * 1664525U + 1013904223U;
    tokens.push_back(static_cast<std::int32_t>((seed >> 16) % 48));
  }
  return tokens;
}

void expect_near(std::span<const float> found, std::span<const float> expected, float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

TEST(CachedModel, TokenByTokenIsTheWholeText) {
  for (const bool unfused : {false, true}) {
    const auto model = make_model({.unfused = unfused, .sequences = 2});
    const auto tokens = text(12, 3);
    const auto whole = model->read(0, tokens);
    auto found = model->read(1, std::span(tokens).first(4));
    for (std::size_t i = 4; i < tokens.size(); ++i) {
      const Next next{.sequence = 1, .token = tokens[i]};
      found = model->step(std::span(&next, 1));
    }
    expect_near(found, whole, 2e-5F);
    EXPECT_EQ(model->length(1), 12);
  }
}

// No bit depends on where a text is cut into pieces.
TEST(CachedModel, LongTextsAreReadInPieces) {
  const auto model = make_model({.sequences = 2});
  const auto tokens = text(300, 5);
  const auto whole = model->read(0, tokens);
  model->read(1, std::span(tokens).first(100));
  EXPECT_EQ(model->read(1, std::span(tokens).subspan(100)), whole);
}

TEST(CachedModel, SequencesTogetherHaveTheBitsOfEachAlone) {
  for (const bool bf16 : {false, true}) {
    for (const bool unfused : {false, true}) {
      const auto together = make_model({.unfused = unfused, .bf16 = bf16, .sequences = 5});
      const auto alone = make_model({.unfused = unfused, .bf16 = bf16, .sequences = 1});
      std::vector<std::vector<std::int32_t>> texts;
      for (const std::size_t length : {7, 70, 1, 33, 290}) texts.push_back(text(length, 9));
      std::vector<Next> next;
      for (int i = 0; i < 5; ++i) {
        together->read(i, texts[static_cast<std::size_t>(i)]);
        next.push_back({.sequence = i, .token = 40 + i});
      }
      std::ranges::reverse(next);
      std::vector<float> all;
      for (int step = 0; step < 3; ++step) all = together->step(next);
      for (std::size_t i = 0; i < next.size(); ++i) {
        alone->truncate(0, 0);
        alone->read(0, texts[static_cast<std::size_t>(next[i].sequence)]);
        std::vector<float> own;
        for (int step = 0; step < 3; ++step) {
          const Next one{.sequence = 0, .token = next[i].token};
          own = alone->step(std::span(&one, 1));
        }
        const auto part = std::span(all).subspan(i * 49, 49);
        EXPECT_TRUE(std::ranges::equal(part, own)) << bf16 << unfused << i;
      }
    }
  }
}

TEST(CachedModel, ACopyGoesOnByItself) {
  const auto model = make_model({.sequences = 2});
  const auto tokens = text(20, 7);
  model->read(0, tokens);
  model->copy(0, 1);
  const std::vector<Next> apart = {{.sequence = 0, .token = 1}, {.sequence = 1, .token = 2}};
  model->step(apart);
  const std::vector<Next> same = {{.sequence = 0, .token = 3}, {.sequence = 1, .token = 3}};
  const auto both = model->step(same);
  model->truncate(0, 20);
  const Next two{.sequence = 0, .token = 2};
  model->step(std::span(&two, 1));
  const Next three{.sequence = 0, .token = 3};
  const auto again = model->step(std::span(&three, 1));
  EXPECT_TRUE(std::ranges::equal(std::span(both).subspan(49), again));
  EXPECT_FALSE(std::ranges::equal(std::span(both).first(49), again));
}

TEST(CachedModel, TensorParallelRanksGiveWhatOneGives) {
  const auto tokens = text(30, 11);
  const auto one = make_model({});
  const auto two = make_model({.tensor = 2, .sequences = 2});
  auto expected = one->read(0, tokens);
  auto found = two->read(0, tokens);
  two->copy(0, 1);
  expect_near(found, expected, 1e-5F);
  for (int i = 0; i < 10; ++i) {
    const std::int32_t best = most_likely(expected, 1)[0];
    EXPECT_EQ(most_likely(found, 1)[0], best);
    const Next next{.sequence = 0, .token = best};
    expected = one->step(std::span(&next, 1));
    const std::vector<Next> both = {{.sequence = 1, .token = best}, next};
    const auto all = two->step(both);
    found.assign(all.begin() + 49, all.end());
    EXPECT_TRUE(std::ranges::equal(found, std::span(all).first(49)));
    expect_near(found, expected, 1e-5F);
  }
  EXPECT_EQ(two->memory().ranks, 2);
  EXPECT_LT(two->memory().parameters, one->memory().parameters);
}

TEST(CachedModel, TheCacheIsARowOfThePlan) {
  for (const int tensor : {1, 2}) {
    for (const bool bf16 : {false, true}) {
      const CachedModel planned(tiny({.bf16 = bf16, .tensor = tensor}), DeviceChoice{}, 1,
                                {.reads = {10}, .capacity = 64, .sequences = 3});
      const GenerationMemory& memory = planned.memory();
      // Keys and values, of layers, sequences, positions, groups, features.
      EXPECT_EQ(memory.cache, 2 * 2 * 3 * 64 * (2 / tensor) * 8 * (bf16 ? 2 : 4));
      EXPECT_EQ(memory.constants, 2 * round_up(std::int64_t{64 * 4}, kArenaAlignment) +
                                      round_up(std::int64_t{64 * 8}, kArenaAlignment));
      EXPECT_EQ(memory.total(),
                memory.parameters + memory.cache + memory.constants + memory.workspace);
    }
  }
}

}  // namespace
}  // namespace phalanx
