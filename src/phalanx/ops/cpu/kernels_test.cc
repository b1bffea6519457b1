// Cases beyond the case table: every SIMD target, fusions against their parts, NaN and infinity,
// large operands, and operands that the ops' checks cannot see.

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/ops/cases/compare.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx::cpu {
namespace {

using ops::Operands;

// A small machine with two threads.
class Machine {
 public:
  Tensor uniform(const Shape& shape) { return operands_.uniform(shape); }
  Operands& operands() { return operands_; }
  Context& context() { return context_; }

  explicit Machine(DType storage = DType::kF32, std::int64_t bytes = std::int64_t{1} << 20)
      : arena_("operands", bytes), operands_(arena_, storage, context_) {}

 private:
  std::unique_ptr<Backend> backend_ = make_cpu_backend(2, ProductPrecision::kFp32);
  Arena arena_;
  Arena workspace_{"workspace", std::int64_t{64} << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
  Operands operands_;
};

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.data(), tensor.data() + tensor.bytes()};
}

// The case table runs on the best target elsewhere; these tests run it on the other targets here.
class OtherTargets : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0) GTEST_SKIP() << "not on this processor";
    hwy::SetSupportedTargetsForTest(GetParam());
  }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(OtherTargets, MatchTheReference) {
  const auto backend = make_cpu_backend(1, ProductPrecision::kFp32);
  for (const ops::Case& row : ops::make_case_table().tests) {
    const bool vectors = !row.op.starts_with("linear") && !row.op.starts_with("unfused") &&
                         !row.op.starts_with("attention");
    if (!vectors) continue;  // these have their own tests
    for (const DType storage : row.storage) {
      if (storage == DType::kF16) continue;  // differs from bf16 in the conversions alone
      EXPECT_EQ(ops::compare_with_reference(row, storage, {*backend}), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Highway, OtherTargets, testing::Values(HWY_AVX2, HWY_SCALAR),
                         [](const auto& instance) {
                           return std::string(hwy::TargetName(instance.param));
                         });

class Fusions : public testing::TestWithParam<DType> {};

// dx = gradient + residual has the same bits as the stored gradient plus an addition.
TEST_P(Fusions, LayerNormBackwardAddsTheRoundedGradient) {
  Machine machine(GetParam());
  const Shape shape{37, 129};
  ops::NormBackward op;
  op.x = machine.uniform(shape);
  op.dy = machine.uniform(shape);
  op.weight = machine.uniform({129});
  op.mean = machine.operands().uniform(DType::kF32, {37});
  op.rstd = machine.operands().uniform(DType::kF32, {37}, 0.5, 2.0);
  op.dweight = machine.operands().output(DType::kF32, {129});
  op.dbias = machine.operands().output(DType::kF32, {129});
  op.dx = machine.operands().output(shape);
  const Tensor parts = op.dx;
  norm_backward(machine.context(), op);
  op.residual = machine.uniform(shape);
  accumulate(machine.context(), ops::Accumulate{.destination = parts, .source = op.residual});
  op.dx = machine.operands().output(shape);
  norm_backward(machine.context(), op);
  EXPECT_EQ(bytes_of(op.dx), bytes_of(parts));
}

TEST_P(Fusions, LayerNormApplyRepeatsForward) {
  Machine machine(GetParam());
  const Shape shape{37, 129};
  ops::NormForward forward;
  forward.x = machine.uniform(shape);
  forward.weight = machine.uniform({129});
  forward.bias = machine.uniform({129});
  forward.mean = machine.operands().output(DType::kF32, {37});
  forward.rstd = machine.operands().output(DType::kF32, {37});
  forward.y = machine.operands().output(shape);
  norm_forward(machine.context(), forward);
  const ops::NormApply apply{.y = machine.operands().output(shape),
                             .x = forward.x,
                             .mean = forward.mean,
                             .rstd = forward.rstd,
                             .weight = forward.weight,
                             .bias = forward.bias};
  norm_apply(machine.context(), apply);
  EXPECT_EQ(bytes_of(apply.y), bytes_of(forward.y));
}

TEST_P(Fusions, RmsNormApplyRepeatsForward) {
  Machine machine(GetParam());
  const Shape shape{17, 65};
  const ops::NormForward forward{.y = machine.operands().output(shape),
                                 .rstd = machine.operands().output(DType::kF32, {shape[0]}),
                                 .x = machine.uniform(shape),
                                 .weight = machine.uniform({shape[1]}),
                                 .zero_centred = true};
  norm_forward(machine.context(), forward);
  const ops::NormApply apply{.y = machine.operands().output(shape),
                             .x = forward.x,
                             .rstd = forward.rstd,
                             .weight = forward.weight,
                             .zero_centred = true};
  norm_apply(machine.context(), apply);
  EXPECT_EQ(bytes_of(apply.y), bytes_of(forward.y));
}

TEST_P(Fusions, RmsNormBackwardAddsTheRoundedGradient) {
  Machine machine(GetParam());
  const Shape shape{17, 65};
  ops::NormBackward op{.dx = machine.operands().output(shape),
                       .dweight = machine.operands().output(DType::kF32, {shape[1]}),
                       .dy = machine.uniform(shape),
                       .x = machine.uniform(shape),
                       .rstd = machine.operands().filled(DType::kF32, {shape[0]}, 1.5),
                       .weight = machine.uniform({shape[1]})};
  norm_backward(machine.context(), op);
  const Tensor sum = machine.uniform(shape);
  const Tensor gradient = op.dx;
  op.residual = op.dx = machine.operands().output(shape);
  ops::copy(machine.context(), {.destination = op.dx, .source = sum});
  norm_backward(machine.context(), op);
  ops::accumulate(machine.context(), {.destination = sum, .source = gradient});
  EXPECT_EQ(bytes_of(op.dx), bytes_of(sum));
}

// residual + dropout(x + bias) equals three ops: x += bias, dropout, residual += x.
TEST_P(Fusions, DropoutRoundsLikeItsParts) {
  for (const double probability : {0.0, 0.3}) {
    Machine machine(GetParam());
    const Shape shape{5, 3, 129};
    const Tensor x = machine.uniform(shape);
    const Tensor bias = machine.uniform({129});
    const Tensor residual = machine.uniform(shape);
    const Tensor out = machine.operands().output(shape);
    const Dropout dropout = ops::case_dropout(probability);
    const RowCoordinates rows = machine.operands().rows(5, 3);
    ops::BiasDropoutResidual fused;
    fused.out = out;
    fused.x = x;
    fused.bias = bias;
    fused.residual = residual;
    fused.dropout = dropout;
    fused.rows = rows;
    bias_dropout_residual(machine.context(), fused);
    for (std::int64_t r = 0; r < 15; ++r) {
      const Tensor row = x.rows().slice(0, r, 1).reshape({129});
      accumulate(machine.context(), ops::Accumulate{.destination = row, .source = bias});
    }
    dropout_backward(machine.context(),
                     ops::DropoutBackward{.dx = x, .dout = x, .dropout = dropout, .rows = rows});
    accumulate(machine.context(), ops::Accumulate{.destination = residual, .source = x});
    EXPECT_EQ(bytes_of(out), bytes_of(residual)) << probability;
  }
}

// A product fused with an activation, its gradient or the sums of a bias equals the separate ops,
// with one block of depth and several, few rows and many.
TEST_P(Fusions, ProductsRoundLikeTheirParts) {
  struct Size {
    std::int64_t rows, n, k;
  };
  for (const Size& size : {Size{3, 100, 40}, Size{70, 129, 390}, Size{390, 65, 801}}) {
    for (const ops::ActivationKind kind : ops::kActivationKinds) {
      Machine machine(GetParam(), std::int64_t{16} << 20);
      const Tensor x = machine.uniform({size.rows, size.k});
      const Tensor dy = machine.uniform({size.rows, size.n});
      const Tensor weight = machine.uniform({size.n, size.k});
      const Tensor n_bias = machine.uniform({size.n}), k_bias = machine.uniform({size.k});
      const auto output = [&](std::int64_t rows, std::int64_t columns) {
        return machine.operands().output({rows, columns});
      };
      const auto full = [&](const Shape& shape) {
        return machine.operands().filled(DType::kF32, shape, 0.5);
      };
      const ops::LinearForward forward{
          .y = output(size.rows, size.n),
          .x = x,
          .weight = weight,
          .bias = {},
          .activation = {.activated = output(size.rows, size.n), .bias = n_bias, .kind = kind}};
      linear_forward(machine.context(), forward);
      ops::LinearForward product = forward;
      product.y = output(size.rows, size.n);
      product.activation = {};
      linear_forward(machine.context(), product);
      const Tensor activated = output(size.rows, size.n);
      bias_activation_forward(
          machine.context(),
          ops::BiasActivationForward{.y = activated, .x = product.y, .bias = n_bias, .kind = kind});
      EXPECT_EQ(bytes_of(forward.y), bytes_of(product.y));
      EXPECT_EQ(bytes_of(forward.activation.activated), bytes_of(activated));

      const ops::LinearInputGradient input{.dx = output(size.rows, size.k),
                                           .dy = dy,
                                           .weight = weight,
                                           .activation = {.x = x, .bias = k_bias, .kind = kind}};
      linear_input_gradient(machine.context(), input);
      const Tensor dx = output(size.rows, size.k);
      linear_input_gradient(machine.context(),
                            ops::LinearInputGradient{.dx = dx, .dy = dy, .weight = weight});
      bias_activation_backward(
          machine.context(),
          ops::BiasActivationBackward{.dx = dx, .dy = dx, .x = x, .bias = k_bias, .kind = kind});
      EXPECT_EQ(bytes_of(input.dx), bytes_of(dx));

      for (const bool accumulate : {true, false}) {
        const ops::LinearWeightGradient both{.dweight = full({size.n, size.k}),
                                             .dy = dy,
                                             .x = x,
                                             .accumulate = accumulate,
                                             .dbias = full({size.n})};
        linear_weight_gradient(machine.context(), both);
        const Tensor dbias = full({size.n});
        bias_gradient(machine.context(),
                      ops::BiasGradient{.dbias = dbias, .dy = dy, .accumulate = accumulate});
        EXPECT_EQ(bytes_of(both.dbias), bytes_of(dbias));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Storage, Fusions, testing::ValuesIn(ops::kStorageTypes),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

ops::CrossEntropy three_rows(Machine& machine, std::int64_t vocabulary) {
  ops::CrossEntropy op;
  op.logits = machine.uniform({3, vocabulary});
  op.dlogits = machine.operands().output({3, vocabulary});
  op.loss = machine.operands().output(DType::kF32, {3});
  op.targets = machine.operands().filled(DType::kI32, {3}, 1.0);
  op.mask = machine.operands().filled(DType::kF32, {3}, 1.0);
  op.seed = machine.operands().filled(DType::kF32, {1}, 1.0);
  op.vocabulary = vocabulary;
  return op;
}

// Quiet and signalling NaN of both signs, one for every payload bit.
std::vector<float> all_nans() {
  std::vector<float> nans;
  for (int bit = 0; bit < 23; ++bit) {
    for (const std::uint32_t sign : {0x7f800000U, 0xff800000U}) {
      nans.push_back(std::bit_cast<float>(sign | (1U << bit)));
    }
  }
  return nans;
}

TEST(ActivationKernels, KeepNan) {
  const std::vector<float> nans = all_nans();
  for (const ops::ActivationKind kind : ops::kActivationKinds) {
    Machine machine;
    const Shape shape{2, std::ssize(nans)};
    const Tensor x = machine.uniform(shape), dy = machine.uniform(shape);
    std::ranges::copy(nans, x.as<float>() + nans.size());
    const Tensor y = machine.operands().filled(DType::kF32, shape, 0.0);
    const Tensor dx = machine.operands().filled(DType::kF32, shape, 0.0);
    bias_activation_forward(machine.context(),
                            ops::BiasActivationForward{.y = y, .x = x, .bias = {}, .kind = kind});
    bias_activation_backward(
        machine.context(),
        ops::BiasActivationBackward{.dx = dx, .dy = dy, .x = x, .bias = {}, .kind = kind});
    for (std::size_t i = 0; i < nans.size(); ++i) {
      EXPECT_TRUE(std::isfinite(y.as<float>()[i]) && std::isfinite(dx.as<float>()[i]));
      EXPECT_TRUE(std::isnan(y.as<float>()[nans.size() + i])) << name_of(kind) << " " << i;
      EXPECT_TRUE(std::isnan(dx.as<float>()[nans.size() + i])) << name_of(kind) << " " << i;
    }
  }
}

TEST(CrossEntropyKernel, KeepsNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t vocabulary : {2, 67, 5003}) {
    std::vector<float> poisons = all_nans();
    poisons.push_back(kInfinity);
    for (const float poison : poisons) {
      for (const std::int64_t place : {std::int64_t{0}, vocabulary / 2, vocabulary - 1}) {
        Machine machine;
        const ops::CrossEntropy op = three_rows(machine, vocabulary);
        op.logits.as<float>()[vocabulary + place] = poison;
        cross_entropy(machine.context(), op);
        EXPECT_TRUE(std::isfinite(op.loss.as<float>()[0]));
        EXPECT_TRUE(std::isnan(op.loss.as<float>()[1])) << vocabulary << " at " << place;
        EXPECT_TRUE(std::isnan(op.dlogits.as<float>()[vocabulary]));
        EXPECT_TRUE(std::isfinite(op.loss.as<float>()[2]));
      }
    }
  }
}

// Logits that keep rising, far beyond the range of exp, and some of probability 0.
TEST(CrossEntropyKernel, FollowsARisingMaximum) {
  Machine machine;
  constexpr std::int64_t kVocabulary = 10007;
  const ops::CrossEntropy op = three_rows(machine, kVocabulary);
  for (std::int64_t row = 0; row < 3; ++row) {
    double sum = 0.0;
    float* logits = op.logits.as<float>() + row * kVocabulary;
    for (std::int64_t i = 0; i < kVocabulary; ++i) {
      logits[i] = static_cast<float>(row - 1) * 0.1F * static_cast<float>(i);
      if (i % 3 == 0) logits[i] = -std::numeric_limits<float>::infinity();
    }
    const double largest = *std::max_element(logits, logits + kVocabulary);
    for (std::int64_t i = 0; i < kVocabulary; ++i) sum += std::exp(logits[i] - largest);
    cross_entropy(machine.context(), op);
    const double expected = largest + std::log(sum) - logits[1];
    EXPECT_NEAR(op.loss.as<float>()[row], expected, 1e-6 * std::abs(expected) + 1e-6) << row;
  }
}

TEST(Kernels, RefuseIndicesOutOfRange) {
  Machine machine;
  const ops::CrossEntropy op = three_rows(machine, 5);
  op.targets.as<std::int32_t>()[2] = 5;
  EXPECT_THROW(cross_entropy(machine.context(), op), InternalError);
  const ops::CrossEntropyStatistics part{.statistics = machine.uniform({3, 3}),
                                         .logits = op.logits,
                                         .targets = op.targets,
                                         .first_column = 0,
                                         .vocabulary = 5};
  EXPECT_THROW(cross_entropy_statistics(machine.context(), part), InternalError);
  const ops::VocabularyParallelCrossEntropy joined{.loss = op.loss,
                                                   .dlogits = {},
                                                   .logits = op.logits,
                                                   .statistics = machine.uniform({2, 3, 3}),
                                                   .targets = op.targets,
                                                   .mask = {},
                                                   .seed = {},
                                                   .first_column = 0,
                                                   .vocabulary = 5};
  EXPECT_THROW(vocabulary_parallel_cross_entropy(machine.context(), joined), InternalError);
  ops::AddPositions positions;
  positions.out = machine.operands().output({1, 2, 8});
  positions.x = machine.uniform({1, 2, 8});
  positions.table = machine.uniform({4, 8});
  positions.ids = machine.operands().filled(DType::kI32, {1, 2}, 4.0);
  positions.rows = machine.operands().rows(1, 2);
  EXPECT_THROW(add_positions(machine.context(), positions), InternalError);
  const Tensor doubles = machine.operands().uniform(DType::kF64, {2, 8});
  ops::BiasActivationForward gelu;
  gelu.y = gelu.x = doubles;
  EXPECT_THROW(bias_activation_forward(machine.context(), gelu), InternalError);
}

TEST(Kernels, FillMoreThanTheCaches) {
  constexpr std::int64_t kBytes = (std::int64_t{17} << 20) + 13;
  Machine machine(DType::kU8, kBytes + 4096);
  const Tensor all = machine.operands().output(DType::kU8, {kBytes});
  for (const std::int64_t begin : {0, 1}) {  // aligned and not
    const Tensor x = all.slice(0, begin, kBytes - 2);
    fill(machine.context(), ops::Fill{.x = x, .value = 7.0 + static_cast<double>(begin)});
    const auto* data = all.as<std::uint8_t>();
    EXPECT_EQ(std::count(data, data + kBytes, 7 + begin), kBytes - 2);
  }
}

// Streaming stores need an aligned destination: copies on both sides of the limit, whole and in
// rows, begin and end within a vector.
TEST(Kernels, CopyMoreThanTheCaches) {
  constexpr std::int64_t kLimit = std::int64_t{16} << 20;  // 32 MiB of bf16
  Machine machine(DType::kBF16, std::int64_t{9} << 24);
  const Tensor from = machine.operands().output(DType::kBF16, {kLimit + (kLimit >> 3)});
  const Tensor to = machine.operands().output(DType::kBF16, {from.shape[0]});
  std::uint16_t value = 0;
  for (bfloat16& x : from.span<bfloat16>()) x.bits = static_cast<std::uint16_t>(value += 40503);
  for (const std::int64_t count : {kLimit - 1, kLimit, kLimit + 1, kLimit + 16385}) {
    for (const std::int64_t past : {0, 1, 31}) {
      fill(machine.context(), ops::Fill{.x = to, .value = 0.0});
      const Tensor source = from.slice(0, 3, count);
      const Tensor destination = to.slice(0, past, count);
      copy(machine.context(), ops::Copy{.destination = destination, .source = source});
      EXPECT_EQ(std::memcmp(destination.data(), source.data(), source.bytes()), 0) << count;
      const bfloat16* all = to.as<bfloat16>();
      EXPECT_EQ(past == 0 ? 0 : all[past - 1].bits, 0) << count << " from " << past;
      EXPECT_EQ(all[past + count].bits, 0) << count << " from " << past;
    }
  }
  // Rows that are longer than a task, out of wider ones.
  constexpr std::int64_t kColumns = 65539;
  const Shape shape{from.shape[0] / kColumns, kColumns};
  const Tensor source = from.slice(0, 0, shape.count()).reshape(shape).slice(1, 1, kColumns - 2);
  const Tensor destination = to.slice(0, 0, source.count()).reshape(source.shape);
  copy(machine.context(), ops::Copy{.destination = destination, .source = source});
  for (std::int64_t r = 0; r < source.shape[0]; ++r) {
    EXPECT_EQ(std::memcmp(destination.select(0, r).data(), source.select(0, r).data(),
                          source.select(0, r).bytes()),
              0)
        << r;
  }
}

TEST(Kernels, HandleTensorsWithoutElements) {
  Machine machine;
  const Tensor none = machine.uniform({0, 8});
  copy(machine.context(), ops::Copy{.destination = none, .source = none});
  fill(machine.context(), ops::Fill{.x = none, .value = 1.0});
  const Tensor sum = machine.operands().output(DType::kF64, {1});
  total(machine.context(),
        ops::Total{.sum = sum, .x = machine.operands().output(DType::kF64, {0})});
  EXPECT_EQ(sum.as<double>()[0], 0.0);
}

}  // namespace
}  // namespace phalanx::cpu
