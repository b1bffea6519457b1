// bf16 storage with fp32 main parameters follows fp32.

#include <gtest/gtest.h>

#include <cmath>

#include "phalanx/ops/cpu/cpu_backend.h"
#include "tiny_training.h"

namespace phalanx {
namespace {

constexpr int kSteps = 20;

TinyRun run_in(DType dtype) {
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
  return {.model = {.transformer = transformer,
                    .vocabulary = 61,
                    .padded_vocabulary = 64,
                    .max_positions = 16,
                    .recompute = {}},
          .shape = {.sequence = 16, .micro_batch = 2},
          .microbatches = 2,
          .optimizer = {}};
}

// Counting modulo the vocabulary from a start of its own, which a model learns within the steps.
std::vector<TinyBatch> batches_at(int step, const TinyRun& run) {
  std::vector<TinyBatch> batches(static_cast<std::size_t>(run.microbatches));
  int sequence = step * 4;
  for (TinyBatch& batch : batches) {
    for (std::int64_t i = 0; i < run.shape.rows(); ++i) {
      const auto s = static_cast<int>(i / run.shape.micro_batch);
      const auto b = static_cast<int>(i % run.shape.micro_batch);
      const int token = (7 * (sequence + b) + s) % 61;
      batch.tokens.push_back(token);
      batch.labels.push_back((token + 1) % 61);
      batch.positions.push_back(s);
      batch.documents.push_back(0);
      batch.loss_mask.push_back(1.0);
    }
    sequence += 2;
  }
  return batches;
}

std::vector<double> losses_in(DType dtype) {
  const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  const TinyRun run = run_in(dtype);
  TinyTraining training(run, *backend);
  training.initialise();
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back(training.step({.lr = 3e-3, .weight_decay = 0.1, .adam_step = step + 1},
                                   batches_at(step, run)));
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
