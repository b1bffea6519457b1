// What is kept and in which precision: attention probabilities that are computed again, and an fp32
// residual stream between layers of 16 bits.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "phalanx/nn/embedding.h"
#include "phalanx/nn/language_model_head.h"
#include "phalanx/nn/parallel_test_support.h"
#include "phalanx/nn/transformer_layer.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx::nn {
namespace {

std::unique_ptr<Unit> make_layer(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<TransformerLayer>(table, 1, 0, config);
}

std::unique_ptr<Unit> make_llama_layer(ParamTable& table, const TransformerConfig& config) {
  return make_layer(table, llama_config(config));
}

std::unique_ptr<Unit> make_embedding(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<Embedding>(table, 11, 16, 8, EmbeddingSharing{}, kTestEmbeddingColumns,
                                     config);
}

std::unique_ptr<Unit> make_head(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<LanguageModelHead>(table, LanguageModelHead::Output::kOwn, 11, 16,
                                             kTestTargetColumns, config);
}

std::int64_t probability_bytes(const TransformerConfig& config) {
  ParamTable table;
  const TransformerLayer layer(table, 0, 0, config);
  std::int64_t bytes = 0;
  for (const auto& slot : layer.saved_slots()) {
    if (slot.name != "attention probabilities") continue;
    bytes += slot.shape({.sequence = 8, .micro_batch = 2}).count() * size_of(slot.dtype);
  }
  return bytes;
}

TEST(RecomputedCoreAttention, IsTheSameBitForBitAndSavesNoProbabilities) {
  for (const std::int64_t groups : {4, 2}) {
    for (const int ranks : {1, 2}) {
      UnitRun run{.make = make_layer, .config = test_config()};
      run.config.attention = AttentionKernel::kUnfused;
      run.config.query_groups = groups;
      run.config.tensor.size = ranks;
      for (const bool fused_backward : {false, true}) {
        run.fused_backward = fused_backward;
        run.config.recompute_core_attention = false;
        EXPECT_EQ(probability_bytes(run.config), 2 * 4 / ranks * 8 * 8 * 8);
        const UnitResult expected = result_of(run);
        run.config.recompute_core_attention = true;
        EXPECT_EQ(probability_bytes(run.config), 0);
        EXPECT_EQ(result_of(run), expected);
      }
    }
  }
}

struct ResidualCase {
  std::string name;
  MakeUnit make;

  friend void PrintTo(const ResidualCase& c, std::ostream* out) { *out << c.name; }
};

class Fp32Residual : public testing::TestWithParam<ResidualCase> {
 protected:
  static std::unique_ptr<Backend> cpu() {
    return make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  }
  UnitRun run_in(DType dtype, bool fp32_residual) const {
    UnitRun run{.make = GetParam().make, .config = test_config()};
    run.config.hidden = 16;
    run.config.ffn_hidden = 32;
    run.config.head_size = 8;
    run.config.dtype = dtype;
    run.config.fp32_residual = fp32_residual;
    return run;
  }
};

bool fits_bf16(const Values& values) {
  return std::ranges::all_of(
      values, [](double value) { return ref::round_to(DType::kBF16, value) == value; });
}

void expect_close(const UnitResult& actual, const UnitResult& expected, double tolerance) {
  EXPECT_LE(relative_error(actual.output, expected.output), tolerance);
  EXPECT_LE(relative_error(actual.input_gradient, expected.input_gradient), tolerance);
  EXPECT_NEAR(actual.loss, expected.loss, tolerance * std::abs(expected.loss));
  for (const auto& [name, gradient] : expected.gradients) {
    const Values& other = actual.gradients.at(name);
    if (!name.ends_with("linear_qkv.bias")) {
      EXPECT_LE(relative_error(other, gradient), tolerance) << name;
      continue;
    }
    // The true gradient of its key rows is zero.
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      EXPECT_NEAR(other[i], gradient[i], 10 * tolerance) << name;
    }
  }
}

TEST_P(Fp32Residual, StreamsAreF32) {
  ParamTable table;
  for (const bool fp32_residual : {false, true}) {
    const auto unit = GetParam().make(table, run_in(DType::kBF16, fp32_residual).config);
    const DType expected = fp32_residual ? DType::kF32 : DType::kBF16;
    for (const auto& stream : unit->inputs()) EXPECT_EQ(stream.dtype, expected);
    for (const auto& stream : unit->outputs()) EXPECT_EQ(stream.dtype, expected);
    for (const auto& slot : unit->saved_slots()) {
      if (slot.name == "attention output") {
        EXPECT_EQ(slot.dtype, expected);
      }
      if (slot.name == "qkv") {
        EXPECT_EQ(slot.dtype, DType::kBF16);
      }
    }
  }
}

// Weights are numbers that bf16 has, so all that differs is how activations are rounded.
TEST_P(Fp32Residual, FollowsFullPrecision) {
  UnitRun run = run_in(DType::kBF16, true);
  run.backend = cpu;
  const UnitResult actual = result_of(run);
  if (!actual.output.empty()) {
    EXPECT_FALSE(fits_bf16(actual.output));
  }
  if (!actual.input_gradient.empty()) {
    EXPECT_FALSE(fits_bf16(actual.input_gradient));
  }
  run.backend = make_ref_backend;
  expect_close(actual, result_of(run), 1e-2);
  expect_close(actual, result_of(run_in(DType::kF64, false)), 2e-2);

  UnitRun narrow = run_in(DType::kBF16, false);
  narrow.backend = cpu;
  const UnitResult rounded = result_of(narrow);
  EXPECT_TRUE(fits_bf16(rounded.output));
  EXPECT_TRUE(fits_bf16(rounded.input_gradient));
}

// The streams of sequence-parallel ranks are the rows of the whole.
TEST_P(Fp32Residual, OnTwoRanks) {
  UnitRun run = run_in(DType::kBF16, true);
  run.backend = cpu;
  const UnitResult expected = result_of(run);
  for (const bool sequence : {false, true}) {
    run.config.tensor = {.size = 2, .sequence = sequence};
    for (const bool fused_backward : {false, true}) {
      run.fused_backward = fused_backward;
      expect_close(result_of(run), expected, 1e-2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Units, Fp32Residual,
                         testing::Values(ResidualCase{"layer", make_layer},
                                         ResidualCase{"llama_layer", make_llama_layer},
                                         ResidualCase{"embedding", make_embedding},
                                         ResidualCase{"head", make_head}),
                         [](const auto& instance) { return instance.param.name; });

// Where everything is f32 already there is nothing to widen.
TEST(Fp32ResidualOfF32, IsNothing) {
  UnitRun run{.make = make_layer, .config = test_config()};
  run.config.dtype = DType::kF32;
  run.backend = [] { return make_cpu_backend(1, cpu::ProductPrecision::kFp32); };
  const UnitResult expected = result_of(run);
  run.config.fp32_residual = true;
  EXPECT_EQ(result_of(run), expected);
}

}  // namespace
}  // namespace phalanx::nn
