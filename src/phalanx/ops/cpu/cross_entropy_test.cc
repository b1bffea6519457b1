// Logits of bf16, which have kernels of their own, against the same numbers as f32 logits: the sums
// have one order, so losses, statistics and gradients have the same bits.

#include "phalanx/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/target.h"

namespace phalanx::cpu {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kPadding = 3;
constexpr std::int64_t kIgnoredRow = 2;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr bfloat16 kNan{0x7fc1};
constexpr bfloat16 kNegativeNan{0xffc1};

// The logit of a row's column from a random number in [-1, 1].
struct Contents {
  const char* name;
  std::function<float(std::int64_t column, float random)> logit;
};

const std::vector<Contents>& every_contents() {
  static const std::vector<Contents> all = {
      {"both signs", [](std::int64_t, float random) { return 4 * random; }},
      {"below zero", [](std::int64_t, float random) { return -30 + 20 * random; }},
      {"above zero", [](std::int64_t, float random) { return 30 + 20 * random; }},
      {"zeros", [](std::int64_t, float random) { return random < 0 ? -0.0F : 0.0F; }},
      {"far apart", [](std::int64_t, float random) { return 3e4F * random; }},
      {"88 apart", [](std::int64_t column, float) { return column % 2 == 0 ? -87.5F : 0.5F; }},
      {"87 apart", [](std::int64_t column, float) { return column % 2 == 0 ? -86.5F : 0.5F; }},
      {"-infinity among them",
       [](std::int64_t column, float random) { return column % 3 == 0 ? -kInfinity : random; }},
      {"-infinity", [](std::int64_t, float) { return -kInfinity; }},
      {"+infinity",
       [](std::int64_t column, float random) { return column == 0 ? kInfinity : random; }},
      {"NaN",
       [](std::int64_t column, float random) { return column == 0 ? to_float(kNan) : random; }},
      {"NaN with a sign",
       [](std::int64_t column, float random) {
         return column == 0 ? to_float(kNegativeNan) : random;
       }},
      {"NaN of both signs below zero",
       [](std::int64_t column, float random) {
         return column == 0 ? to_float(kNegativeNan) : -2 + random;
       }},
  };
  return all;
}

class Bf16Logits : public testing::Test {
 protected:
  // Shapes of the same op in both types; odd columns first, so that rows are not aligned.
  void prepare(std::int64_t vocabulary, const Contents& contents) {
    operands_ = std::make_unique<Arena>("operands", std::int64_t{4} << 20);
    const std::int64_t columns = vocabulary + kPadding;
    narrow_ = operands_->allocate(DType::kBF16, {kRows, columns});
    wide_ = operands_->allocate(DType::kF32, {kRows, columns});
    targets_ = operands_->allocate(DType::kI32, {kRows});
    mask_ = operands_->allocate(DType::kF32, {kRows});
    seed_ = operands_->allocate(DType::kF32, {1});
    seed_.as<float>()[0] = 0.37F;
    std::uint32_t state = 7;
    for (std::int64_t i = 0; i < kRows * columns; ++i) {
      state = state * 1664525U + 1013904223U;
      const float random = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
      const bool token = i % columns < vocabulary;
      const float logit =
          token ? contents.logit((i % columns + 1) % vocabulary, random) : to_float(kNan);
      narrow_.as<bfloat16>()[i] = to_bfloat16(logit);
      wide_.as<float>()[i] = to_float(narrow_.as<bfloat16>()[i]);
    }
    for (std::int64_t r = 0; r < kRows; ++r) {
      targets_.as<std::int32_t>()[r] = static_cast<std::int32_t>((7 * r + 2) % vocabulary);
      mask_.as<float>()[r] = r == kIgnoredRow ? 0.0F : 1.0F;
    }
  }

  Tensor output(DType dtype, const Shape& shape) { return operands_->allocate(dtype, shape); }

  static std::string difference(const Tensor& a, const Tensor& b) {
    return std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.bytes())) == 0 ? ""
                                                                                     : "other bits";
  }

  std::string compare_loss(bool in_place) {
    const Tensor loss[] = {output(DType::kF32, {kRows}), output(DType::kF32, {kRows})};
    const Tensor dlogits[] = {in_place ? narrow_ : output(DType::kBF16, narrow_.shape),
                              output(DType::kBF16, narrow_.shape)};
    const Tensor logits[] = {narrow_, wide_};
    for (const std::size_t which : {1, 0}) {
      ops::cross_entropy(context_, {.loss = loss[which],
                                    .dlogits = dlogits[which],
                                    .logits = logits[which],
                                    .targets = targets_,
                                    .mask = mask_,
                                    .seed = seed_,
                                    .vocabulary = narrow_.shape[1] - kPadding});
    }
    EXPECT_EQ(loss[0].as<float>()[kIgnoredRow], 0.0F);
    EXPECT_EQ(dlogits[0].as<bfloat16>()[kIgnoredRow * narrow_.shape[1]].bits, 0);
    return difference(loss[0], loss[1]) + difference(dlogits[0], dlogits[1]);
  }

  std::string compare_parallel() {
    const Tensor statistics[] = {output(DType::kF32, {1, 3, kRows}),
                                 output(DType::kF32, {1, 3, kRows})};
    const Tensor loss[] = {output(DType::kF32, {kRows}), output(DType::kF32, {kRows})};
    const Tensor dlogits[] = {output(DType::kBF16, narrow_.shape),
                              output(DType::kBF16, narrow_.shape)};
    const Tensor logits[] = {narrow_, wide_};
    for (const std::size_t which : {0, 1}) {
      const std::int64_t vocabulary = narrow_.shape[1] - kPadding;
      ops::cross_entropy_statistics(context_, {.statistics = statistics[which].select(0, 0),
                                               .logits = logits[which],
                                               .targets = targets_,
                                               .mask = mask_,
                                               .vocabulary = vocabulary});
      ops::vocabulary_parallel_cross_entropy(context_, {.loss = loss[which],
                                                        .dlogits = dlogits[which],
                                                        .logits = logits[which],
                                                        .statistics = statistics[which],
                                                        .targets = targets_,
                                                        .mask = mask_,
                                                        .seed = seed_,
                                                        .vocabulary = vocabulary});
    }
    return difference(statistics[0], statistics[1]) + difference(loss[0], loss[1]) +
           difference(dlogits[0], dlogits[1]);
  }

  void expect_same_bits(std::int64_t vocabulary, const Contents& contents) {
    prepare(vocabulary, contents);
    EXPECT_EQ(compare_loss(false), "") << vocabulary << " columns, " << contents.name;
    EXPECT_EQ(compare_parallel(), "") << vocabulary << " columns, " << contents.name;
    EXPECT_EQ(compare_loss(true), "")
        << vocabulary << " columns, " << contents.name << ", in place";
  }

  Tensor narrow_, wide_, targets_, mask_, seed_;

 private:
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1, ProductPrecision::kFp32);
  std::unique_ptr<Arena> operands_;
  Arena workspace_{"workspace", std::int64_t{1} << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
};

TEST_F(Bf16Logits, HaveTheBitsOfF32) {
  for (const Target target : targets_here()) {
    const ForcedTarget forced(target);
    for (const Contents& contents : every_contents()) {
      for (const std::int64_t vocabulary : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129}) {
        expect_same_bits(vocabulary, contents);
      }
      // Blocks of columns: whole ones, and a short one behind them.
      for (const std::int64_t vocabulary : {2047, 2048, 2049, 4200}) {
        expect_same_bits(vocabulary, contents);
      }
    }
  }
}

// A factor that is not finite: its products are NaN.
TEST_F(Bf16Logits, HaveTheBitsOfF32WithASeedThatIsNoNumber) {
  for (const float seed : {kInfinity, std::bit_cast<float>(0xffffffffU)}) {
    prepare(100, every_contents().front());
    seed_.as<float>()[0] = seed;
    EXPECT_EQ(compare_loss(false), "") << seed;
    EXPECT_EQ(compare_parallel(), "") << seed;
  }
}

}  // namespace
}  // namespace phalanx::cpu
