// Experts that begin unequal become equally busy by a bias or by a loss, and stay unequal without
// either: the rows of two of eight experts in the router start three times as large as the others.

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/text_batches.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

constexpr std::int64_t kSamples = 16;
constexpr std::int64_t kLength = 32;
constexpr std::int64_t kVocabulary = 48;
constexpr double kRate = 1e-3;
constexpr const char* kBias =
    "--moe-router-score-function sigmoid --moe-router-enable-expert-bias "
    "--moe-router-load-balancing-type none";

TrainConfig balance_config(int seed, const std::string& flags) {
  TrainConfig c = with_flags(
      {},
      fmt::format(
          "--num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length {} "
          "--max-position-embeddings {} --make-vocab-size-divisible-by 16 --micro-batch-size {} "
          "--global-batch-size {} --train-iters 2000 --lr {} --init-method-std 1 "
          "--tokenizer-type NullTokenizer --vocab-size {} --model-vocab-size {} --mock-data "
          "--hidden-dropout 0 "
          "--attention-dropout 0 --threads-per-rank 1 --seed {} --num-experts 8 "
          "--moe-router-topk 2 --moe-ffn-hidden-size 16 --swiglu --disable-bias-linear {}",
          kLength, kLength, kSamples, kSamples, kRate, kVocabulary - 1, kVocabulary, seed, flags));
  resolve(c, /*plans=*/false);
  return c;
}

// Texts that count on in steps of one to three, with a word at random now and then.
class CountingTexts {
 public:
  explicit CountingTexts(int seed) : state_(static_cast<std::uint32_t>(seed) * 7919U + 1U) {}

  const HostBatch& next() {
    for (std::int64_t sample = 0; sample < kSamples; ++sample) {
      std::int64_t token = random(kVocabulary);
      const std::int64_t step = 1 + random(3);
      for (std::int64_t p = 0; p < kLength; ++p) {
        const std::int64_t following =
            random(8) == 0 ? random(kVocabulary) : (token + step) % kVocabulary;
        set<std::int64_t>("sample", p, sample, sample);
        set<std::int32_t>("position", p, sample, static_cast<std::int32_t>(p));
        set<std::int32_t>("position_ids", p, sample, static_cast<std::int32_t>(p));
        set<std::int32_t>("document", p, sample, 0);
        set<std::int32_t>("tokens", p, sample, static_cast<std::int32_t>(token));
        set<std::int32_t>("labels", p, sample, static_cast<std::int32_t>(following));
        set<float>("loss_mask", p, sample, 1.0F);
        token = following;
      }
    }
    return batch_;
  }

 private:
  std::int64_t random(std::int64_t below) {
    state_ = state_ * 1664525U + 1013904223U;
    return static_cast<std::int64_t>(state_ >> 8) % below;
  }
  template <typename T>
  void set(const std::string& column, std::int64_t place, std::int64_t sample, T value) {
    batch_.column<T>(column)[static_cast<std::size_t>(place * kSamples + sample)] = value;
  }

  std::uint32_t state_;
  HostBatch batch_{gpt_batch_schema(kLength), kSamples};
};

// By iteration: the busiest expert's tokens over those of the mean expert.
std::vector<double> loads(int seed, const std::string& flags, int iterations) {
  const TrainConfig config = balance_config(seed, flags);
  const auto model = make_model(config, kVocabulary);
  std::vector<double> found;
  run_ranks(config, *model, [&](Rank& rank) {
    rank.initialise();
    for (ParamId id = 0; id < rank.table().size(); ++id) {
      if (!rank.table()[id].name.ends_with("router.weight")) continue;
      const Tensor& weight = rank.parameters().weight(id);
      for (float& value : weight.slice(0, 0, 2).span<float>()) value *= 3.0F;
    }
    CountingTexts texts(seed);
    const BatchSource source = [&](int /*microbatch*/) -> const HostBatch& { return texts.next(); };
    for (int i = 1; i <= iterations; ++i) {
      const StepResult step = rank.train_step({.lr = kRate, .adam_step = i}, source);
      found.push_back(step.router_loads.front().most_to_mean);
    }
  });
  return found;
}

double mean_of_last(std::span<const double> loads, std::size_t count = 100) {
  const auto last = loads.last(count);
  return std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(count);
}

// A step that failed is run again with the biases that its passes had (watch/nan_finder.h).
TEST(ExpertBias, OfTheLastStepComesBack) {
  const TrainConfig config = balance_config(1, kBias);
  const auto model = make_model(config, kVocabulary);
  run_ranks(config, *model, [&](Rank& rank) {
    rank.initialise();
    CountingTexts texts(1);
    const BatchSource source = [&](int /*microbatch*/) -> const HostBatch& { return texts.next(); };
    const auto bias = [&] {
      for (ParamId id = 0; id < rank.table().size(); ++id) {
        if (!rank.table()[id].is_state) continue;
        const auto values = rank.parameters().weight(id).span<float>();
        return std::vector<float>(values.begin(), values.end());
      }
      return std::vector<float>();
    };
    rank.train_step({.lr = kRate, .adam_step = 1}, source);
    const std::vector<float> before = bias();
    rank.train_step({.lr = kRate, .adam_step = 2}, source);
    EXPECT_NE(bias(), before);
    rank.states().routers().restore_biases(rank.context());
    EXPECT_EQ(bias(), before);
  });
}

struct BalanceLoads {
  double without = 0.0, by_loss = 0.0, by_bias = 0.0;
};
BalanceLoads balance_loads(int seed, int iterations) {
  const auto load = [&](const std::string& flags) {
    const std::vector<double> all = loads(seed, flags, iterations);
    return mean_of_last(all);
  };
  return {.without = load("--moe-router-load-balancing-type none"),
          .by_loss = load("--moe-aux-loss-coeff 1e-2"),
          .by_bias = load(kBias)};
}

TEST(ExpertBalance, BeginsToComeByALossOrABias) {
  const BalanceLoads found = balance_loads(1, 300);
  EXPECT_GE(found.without, 2.0);
  EXPECT_LE(found.by_loss, 1.3);
  EXPECT_LE(found.by_bias, 1.6);
}

TEST(ExpertBalance, LastsByALossOrABiasAlone) {
  if (std::getenv("PHALANX_NIGHTLY") == nullptr) GTEST_SKIP() << "a minute: by ./test --nightly";
  for (const int seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    const BalanceLoads found = balance_loads(seed, 2000);
    EXPECT_GE(found.without, 2.0);
    EXPECT_LE(found.by_loss, 1.3);
    EXPECT_LE(found.by_bias, 1.3);
  }
}

}  // namespace
}  // namespace phalanx
