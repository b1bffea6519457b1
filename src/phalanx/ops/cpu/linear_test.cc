// Cases beyond the case table: long sums, many rows, strided operands, the tail of every cut, one
// or many threads, and the choice of products. A plain double loop gives the expected values.

#include "phalanx/ops/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/precision.h"

namespace phalanx::cpu {
namespace {

// The families of bf16 products that this processor supports.
std::vector<ProductPrecision> bf16_families() {
  std::vector<ProductPrecision> families;
  for (const auto family : {ProductPrecision::kBf16, ProductPrecision::kAmx}) {
    if (has_products(family)) families.push_back(family);
  }
  return families;
}

double value(const Tensor& t, std::int64_t i, std::int64_t j) {
  const auto at = i * t.strides[0] + j * t.strides[1];
  switch (t.dtype) {
    case DType::kBF16:
      return to_float(t.as<bfloat16>()[at]);
    case DType::kF16:
      return to_float(t.as<float16>()[at]);
    default:
      return t.as<float>()[at];
  }
}

// How a product runs.
struct Setting {
  int threads = 1;
  Target target = active_target();
};

class Products : public testing::Test {
 protected:
  // A matrix with `gap` unused elements between rows.
  Tensor matrix(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t gap = 0) {
    const Tensor whole = arena_.allocate(dtype, {rows, columns + gap});
    for (std::int64_t i = 0; i < whole.count(); ++i) {
      const float x = std::uniform_real_distribution<float>(-1.0F, 1.0F)(random_);
      if (dtype == DType::kF32) whole.as<float>()[i] = x;
      if (dtype == DType::kBF16) whole.as<bfloat16>()[i] = to_bfloat16(x);
      if (dtype == DType::kF16) whole.as<float16>()[i] = to_float16(x);
    }
    return whole.slice(1, 0, columns);
  }

  template <typename Op>
  void run(CpuDevice& device, const Op& op) {
    const WorkspaceScope scope(workspace_);
    const std::int64_t bytes = workspace_bytes_of(device, op);
    const Tensor scratch = workspace_.allocate(DType::kU8, {bytes + 64});
    std::memset(scratch.data(), 0xff, static_cast<std::size_t>(bytes + 64));
    execute(device, op, scratch);
    for (std::int64_t i = bytes; i < bytes + 64; ++i) {
      ASSERT_EQ(scratch.data()[i], std::byte{0xff}) << "wrote beyond its workspace";
    }
  }

  // Compares some elements of c with sums of a(i, p) * b(p, j) plus start(i, j).
  template <typename A, typename B, typename Start>
  void expect_product(const Tensor& c, std::int64_t k, double tolerance, const A& a, const B& b,
                      const Start& start) {
    const std::int64_t rows = c.shape[0], columns = c.shape[1];
    for (int sample = 0; sample < 300; ++sample) {
      // First the corners, then random elements.
      const std::int64_t i = sample < 4 ? (sample & 1) * (rows - 1) : pick(rows);
      const std::int64_t j = sample < 4 ? (sample >> 1) * (columns - 1) : pick(columns);
      double sum = start(i, j);
      for (std::int64_t p = 0; p < k; ++p) sum += a(i, p) * b(p, j);
      ASSERT_NEAR(value(c, i, j), sum, tolerance * std::sqrt(static_cast<double>(k)))
          << "at " << i << ", " << j;
    }
  }
  std::int64_t pick(std::int64_t below) {
    return std::uniform_int_distribution<std::int64_t>(0, below - 1)(random_);
  }

  void check_forward(CpuDevice& device, DType dtype, std::int64_t rows, std::int64_t n,
                     std::int64_t k, double tolerance, std::int64_t gap = 0) {
    const ops::LinearForward op{.y = matrix(dtype, rows, n, gap),
                                .x = matrix(dtype, rows, k, gap),
                                .weight = matrix(dtype, n, k, gap),
                                .bias = {}};
    run(device, op);
    expect_product(
        op.y, k, tolerance, [&](auto i, auto p) { return value(op.x, i, p); },
        [&](auto p, auto j) { return value(op.weight, j, p); }, [](auto, auto) { return 0.0; });
  }
  void check_input_gradient(CpuDevice& device, DType dtype, std::int64_t rows, std::int64_t n,
                            std::int64_t k, double tolerance, std::int64_t gap = 0) {
    const ops::LinearInputGradient op{.dx = matrix(dtype, rows, k, gap),
                                      .dy = matrix(dtype, rows, n, gap),
                                      .weight = matrix(dtype, n, k, gap)};
    run(device, op);
    expect_product(
        op.dx, n, tolerance, [&](auto i, auto p) { return value(op.dy, i, p); },
        [&](auto p, auto j) { return value(op.weight, p, j); }, [](auto, auto) { return 0.0; });
  }
  void check_weight_gradient(CpuDevice& device, DType dtype, std::int64_t rows, std::int64_t n,
                             std::int64_t k, double tolerance, std::int64_t gap = 0) {
    const ops::LinearWeightGradient op{.dweight = matrix(DType::kF32, n, k, gap),
                                       .dy = matrix(dtype, rows, n, gap),
                                       .x = matrix(dtype, rows, k, gap)};
    std::vector<float> before;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        before.push_back(static_cast<float>(value(op.dweight, i, j)));
      }
    }
    run(device, op);
    expect_product(
        op.dweight, rows, tolerance, [&](auto i, auto p) { return value(op.dy, p, i); },
        [&](auto p, auto j) { return value(op.x, p, j); },
        [&](auto i, auto j) { return before[static_cast<std::size_t>(i * k + j)]; });
  }
  void check_all(CpuDevice& device, DType dtype, std::int64_t rows, std::int64_t n, std::int64_t k,
                 double tolerance, std::int64_t gap = 0) {
    SCOPED_TRACE(
        fmt::format("{} {}x{}x{}, {} threads", name_of(dtype), rows, n, k, device.threads));
    check_forward(device, dtype, rows, n, k, tolerance, gap);
    check_input_gradient(device, dtype, rows, n, k, tolerance, gap);
    check_weight_gradient(device, dtype, rows, n, k, tolerance, gap);
  }

  // Operands of the three passes.
  struct Problem {
    Tensor x, dy, weight;
  };
  Problem make_problem(Arena& arena, DType dtype, std::int64_t rows, std::int64_t n,
                       std::int64_t k) {
    const auto keep = [&](const Tensor& from) {
      const Tensor kept = arena.allocate(dtype, from.shape);
      std::memcpy(kept.data(), from.data(), static_cast<std::size_t>(from.bytes()));
      return kept;
    };
    const WorkspaceScope scope(arena_);
    return {keep(matrix(dtype, rows, k)), keep(matrix(dtype, rows, n)), keep(matrix(dtype, n, k))};
  }
  std::vector<std::byte> results_of(const Problem& problem, ProductPrecision family,
                                    const Setting& setting);

  Arena arena_{"operands", std::int64_t{256} << 20};
  Arena workspace_{"workspace", std::int64_t{256} << 20};
  std::mt19937 random_{1};
};

constexpr double kF32 = 3e-6, kBf16 = 8e-3, kF16 = 1e-3;

TEST_F(Products, ComputeTheTailsOfEveryCut) {
  for (const int threads : {1, 2, 3}) {
    CpuDevice device = make_device(threads, ProductPrecision::kFp32);
    check_all(device, DType::kF32, 1100, 390, 70, kF32);
    check_all(device, DType::kF32, 67, 1157, 33, kF32);
    check_all(device, DType::kF32, 47, 100, 777, kF32);
    check_all(device, DType::kBF16, 260, 390, 70, kBf16);
    check_all(device, DType::kF16, 67, 129, 385, kF16);
  }
}

TEST_F(Products, CutLongSumsAndAddThem) {
  CpuDevice device = make_device(2, ProductPrecision::kFp32);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const double tolerance = dtype == DType::kF32 ? kF32 : kBf16;
    check_forward(device, dtype, 70, 65, 4900, tolerance);
    check_input_gradient(device, dtype, 70, 9001, 33, tolerance);
    check_weight_gradient(device, dtype, 4900, 20, 65, kF32);
  }
}

// Sums that stay in C between blocks of depth are finished there, whichever operand is packed by
// tasks: the smaller one, or rows that have to be converted.
TEST_F(Products, AddABiasAfterLongSums) {
  CpuDevice device = make_device(2, ProductPrecision::kFp32);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t rows : {64, 301}) {
      const WorkspaceScope scope(arena_);
      const std::int64_t n = 100, k = 2100;
      const ops::LinearForward op{.y = matrix(DType::kF32, rows, n),
                                  .x = matrix(dtype, rows, k),
                                  .weight = matrix(dtype, n, k),
                                  .bias = matrix(dtype, 1, n).select(0, 0)};
      run(device, op);
      expect_product(
          op.y, k, kF32, [&](auto i, auto p) { return value(op.x, i, p); },
          [&](auto p, auto j) { return value(op.weight, j, p); },
          [&](auto, auto j) {
            return value(op.bias.reshape({1, n}), 0, j);
          });
    }
  }
}

TEST_F(Products, AcceptStridedRows) {
  CpuDevice device = make_device(2, ProductPrecision::kFp32);
  check_all(device, DType::kF32, 300, 200, 100, kF32, 7);
  check_all(device, DType::kF32, 5, 200, 100, kF32, 7);
  check_all(device, DType::kBF16, 300, 200, 100, kBf16, 7);
  check_all(device, DType::kBF16, 5, 200, 100, kBf16, 7);
}

TEST_F(Products, OfBf16) {
  for (const ProductPrecision family : bf16_families()) {
    for (const int threads : {1, 2}) {
      CpuDevice device = make_device(threads, family);
      check_all(device, DType::kBF16, 300, 390, 70, kBf16);
      check_all(device, DType::kBF16, 5, 200, 100, kBf16, 7);
      check_all(device, DType::kBF16, 70, 4900, 33, kBf16);
      check_all(device, DType::kF32, 70, 80, 33, kF32);
    }
  }
}

// The results of the three passes as bytes.
std::vector<std::byte> Products::results_of(const Problem& problem, ProductPrecision family,
                                            const Setting& setting) {
  const WorkspaceScope scope(arena_);
  const ForcedTarget forced(setting.target);
  CpuDevice device = make_device(setting.threads, family);
  const std::int64_t rows = problem.x.shape[0], n = problem.dy.shape[1], k = problem.x.shape[1];
  const DType dtype = problem.x.dtype;
  const auto poisoned = [&](DType of, const Shape& shape) {
    const Tensor tensor = arena_.allocate(of, shape);
    std::memset(tensor.data(), 0xff, static_cast<std::size_t>(tensor.bytes()));
    return tensor;
  };
  const Tensor y = poisoned(dtype, {rows, n}), dx = poisoned(dtype, {rows, k});
  const Tensor dweight = poisoned(DType::kF32, {n, k}), dbias = poisoned(DType::kF32, {n});
  run(device, ops::LinearForward{.y = y, .x = problem.x, .weight = problem.weight, .bias = {}});
  run(device, ops::LinearInputGradient{.dx = dx, .dy = problem.dy, .weight = problem.weight});
  run(device, ops::LinearWeightGradient{.dweight = dweight,
                                        .dy = problem.dy,
                                        .x = problem.x,
                                        .accumulate = false,
                                        .dbias = dbias});
  std::vector<std::byte> bytes;
  for (const Tensor& t : {y, dx, dweight, dbias}) {
    bytes.insert(bytes.end(), t.data(), t.data() + t.bytes());
  }
  return bytes;
}

// Sizes around the borders of tiles (6 and 8 rows, 16 to 48 columns), of blocks (64 and 1,024 rows,
// 384 columns, 384 and 1,024 depths), and of the choices of a plan.
constexpr std::int64_t kBorders[][3] = {
    {1, 1, 1},        {1, 400, 70},    {5, 47, 385},   {8, 48, 384},    {9, 49, 383},
    {63, 33, 16},     {64, 384, 17},   {65, 385, 64},  {257, 2100, 33}, {256, 2056, 48},
    {400, 900, 300},  {66, 352, 769},  {48, 16, 4100}, {2, 50, 4200},   {3, 4200, 50},
    {130, 270, 1100}, {1030, 70, 1030}};

TEST_F(Products, AgreeWithTheReferenceAtEveryBorder) {
  for (const Target target : {Target::kAvx2, Target::kAvx512, Target::kScalar}) {
    if (target > best_target()) continue;
    const ForcedTarget forced(target);
    for (const auto& [rows, n, k] : kBorders) {
      if (target == Target::kScalar && rows * n * k > (1 << 22)) continue;
      const WorkspaceScope scope(arena_);
      CpuDevice device = make_device(2, ProductPrecision::kFp32);
      check_all(device, DType::kF32, rows, n, k, kF32, rows % 3);
      check_all(device, DType::kBF16, rows, n, k, kBf16, k % 5);
    }
  }
  for (const ProductPrecision family : bf16_families()) {
    for (const auto& [rows, n, k] : kBorders) {
      const WorkspaceScope scope(arena_);
      CpuDevice device = make_device(2, family);
      check_all(device, DType::kBF16, rows, n, k, kBf16, k % 5);
    }
  }
}

// The scalar target is excluded: it rounds products before it adds them.
TEST_F(Products, BitsDependNeitherOnThreadsNorOnTheTarget) {
  const Target vectors = std::max(active_target(), std::min(best_target(), Target::kAvx2));
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const auto& [rows, n, k] : kBorders) {
      Arena operands("fixed operands", std::int64_t{64} << 20);
      const Problem problem = make_problem(operands, dtype, rows, n, k);
      const auto expected =
          results_of(problem, ProductPrecision::kFp32, {.threads = 1, .target = vectors});
      for (const int threads : {2, 3, 5}) {
        if (dtype == DType::kF16) continue;  // differs in the conversions alone
        EXPECT_TRUE(results_of(problem, ProductPrecision::kFp32,
                               {.threads = threads, .target = vectors}) == expected)
            << name_of(dtype) << " " << rows << " x " << n << " x " << k << ", " << threads
            << " threads";
      }
      for (const Target target : {Target::kAvx2, Target::kAvx512}) {
        if (target > best_target()) continue;
        EXPECT_TRUE(results_of(problem, ProductPrecision::kFp32,
                               {.threads = 2, .target = target}) == expected)
            << name_of(dtype) << " " << rows << " x " << n << " x " << k << " on "
            << name_of(target);
      }
      if (dtype != DType::kBF16) continue;
      for (const ProductPrecision family : bf16_families()) {
        const auto of_family = results_of(problem, family, {.threads = 1});
        for (const int threads : {2, 3, 5}) {
          EXPECT_TRUE(results_of(problem, family, {.threads = threads}) == of_family)
              << rows << " x " << n << " x " << k << ", " << threads << " threads";
        }
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::cpu
