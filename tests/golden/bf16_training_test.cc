// bf16 storage with fp32 main parameters follows fp32.

#include <gtest/gtest.h>

#include <cmath>

#include "phalanx/model/gpt.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "tiny_training.h"

namespace phalanx {
namespace {

constexpr int kSteps = 20;
constexpr int kSequence = 16;
constexpr int kMicroBatch = 2;
constexpr int kMicrobatches = 2;

GptModel model_in(DType dtype) {
  const nn::TransformerConfig transformer{.num_layers = 2,
                                          .hidden = 32,
                                          .ffn_hidden = 128,
                                          .heads = 4,
                                          .query_groups = 4,
                                          .head_size = 8,
                                          .hidden_dropout = 0.1,
                                          .attention_dropout = 0.1,
                                          .dtype = dtype,
                                          .tensor = {},
                                          .init_key = random_key(3, RandomPurpose::kInitialisation),
                                          .dropout_key = random_key(3, RandomPurpose::kDropout)};
  return {{.transformer = transformer,
           .vocabulary = 61,
           .padded_vocabulary = 64,
           .max_positions = kSequence,
           .recompute = {}},
          kSequence};
}

// Counting modulo the vocabulary from a start of its own, which a model learns within the steps.
std::vector<TinyBatch> batches_at(int step) {
  std::vector<TinyBatch> batches(kMicrobatches);
  int sequence = step * 4;
  for (TinyBatch& batch : batches) {
    for (int i = 0; i < kSequence * kMicroBatch; ++i) {
      const int token = (7 * (sequence + i % kMicroBatch) + i / kMicroBatch) % 61;
      batch["tokens"].push_back(token);
      batch["labels"].push_back((token + 1) % 61);
      batch["loss_mask"].push_back(1.0);
    }
    sequence += 2;
  }
  return batches;
}

std::vector<double> losses_in(DType dtype) {
  const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  const GptModel model = model_in(dtype);
  TinyTraining training(
      {.model = model, .micro_batch = kMicroBatch, .microbatches = kMicrobatches, .optimizer = {}},
      *backend);
  training.initialise();
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const auto sums =
        training.step({.lr = 3e-3, .weight_decay = 0.1, .adam_step = step + 1}, batches_at(step));
    losses.push_back(sums.at(0).mean());
    for (const double value : training.padding(0)) EXPECT_EQ(value, 0.0);
  }
  return losses;
}

TEST(Bf16Training, FollowsFp32) {
  const auto single = losses_in(DType::kF32);
  const auto half = losses_in(DType::kBF16);
  EXPECT_LT(single.back(), 0.8 * single.front());
  double largest = 0.0;
  for (std::size_t i = 0; i < single.size(); ++i) {
    EXPECT_NEAR(half[i] / single[i], 1.0, 2e-3) << "step " << i + 1;
    largest = std::max(largest, std::abs(half[i] / single[i] - 1.0));
  }
  // It is bf16 indeed.
  EXPECT_GT(largest, 1e-6);
}

}  // namespace
}  // namespace phalanx
