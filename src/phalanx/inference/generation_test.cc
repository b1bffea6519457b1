#include "phalanx/inference/generation.h"

#include <gtest/gtest.h>

#include <map>

#include "phalanx/inference/test_sequence_model.h"

namespace phalanx {
namespace {

class Listener final : public GenerationListener {
 public:
  bool on_token(std::size_t request, std::int32_t token) override {
    EXPECT_EQ(ended[request], 0);
    tokens[request].push_back(token);
    return token != last;
  }
  void on_end(std::size_t request) override { ++ended[request]; }

  std::map<std::size_t, std::vector<std::int32_t>> tokens;
  std::map<std::size_t, int> ended;
  std::int32_t last = -1;
};

std::vector<GenerationRequest> requests() {
  std::vector<GenerationRequest> all;
  for (std::int32_t i = 0; i < 6; ++i) {
    std::vector<std::int32_t> prompt(static_cast<std::size_t>(1 + i % 3), i);
    all.push_back(
        {.prompt = prompt, .most = 3 + i, .sampling = {.seed = 5 + static_cast<std::uint64_t>(i)}});
  }
  return all;
}

TEST(Generation, DoesNotDependOnWhatIsContinuedTogether) {
  const auto all = requests();
  Listener alone;
  for (std::size_t i = 0; i < all.size(); ++i) {
    MadeUpModel model(7, 1, 20);
    Listener listener;
    generate(model, std::span(all).subspan(i, 1), listener);
    alone.tokens[i] = listener.tokens[0];
    EXPECT_EQ(std::ssize(alone.tokens[i]), all[i].most);
  }
  for (const int sequences : {1, 2, 4, 8}) {
    MadeUpModel model(7, sequences, 20);
    Listener listener;
    const GenerationRates rates = generate(model, all, listener);
    EXPECT_EQ(listener.tokens, alone.tokens) << sequences;
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(listener.ended[i], 1);
    EXPECT_EQ(model.most_together, static_cast<std::size_t>(std::min(sequences, 6)));
    EXPECT_EQ(rates.prompt_tokens, 12);
    EXPECT_EQ(rates.decoded_tokens, 3 + 4 + 5 + 6 + 7 + 8 - 6);  // the first ones come of prompts
  }
}

TEST(Generation, EndsWhereItIsToldAndAtTheCapacity) {
  const auto all = requests();
  MadeUpModel model(7, 1, 6);
  Listener listener;
  GenerationRequest request = all[0];
  request.most = 100;
  generate(model, std::span(&request, 1), listener);
  EXPECT_EQ(listener.tokens[0].size(), 6U);  // five that it can read, and one behind them
  const std::int32_t last = listener.tokens[0][2];
  MadeUpModel again(7, 1, 6);
  Listener stopping;
  stopping.last = last;
  generate(again, std::span(&request, 1), stopping);
  EXPECT_LE(stopping.tokens[0].size(), 3U);
  EXPECT_EQ(stopping.tokens[0].back(), last);
  EXPECT_EQ(stopping.ended[0], 1);
  Listener none;
  request.most = 0;
  MadeUpModel third(7, 1, 6);
  generate(third, std::span(&request, 1), none);
  EXPECT_TRUE(none.tokens.empty());
  EXPECT_EQ(none.ended[0], 1);
}

// The model does not read again the positions of a single request's prompt that it has already.
TEST(Generation, GoesOnBehindWhatTheModelRemembers) {
  GenerationRequest request{.prompt = {1, 2, 3, 4}, .most = 3, .sampling = {}};
  MadeUpModel whole(7, 1, 20);
  Listener expected;
  generate(whole, std::span(&request, 1), expected);
  MadeUpModel model(7, 1, 20);
  const std::vector<std::int32_t> first = {1, 2};
  model.read(0, first);
  Listener listener;
  EXPECT_EQ(generate(model, std::span(&request, 1), listener).prompt_tokens, 2);
  EXPECT_EQ(listener.tokens, expected.tokens);
}

}  // namespace
}  // namespace phalanx
