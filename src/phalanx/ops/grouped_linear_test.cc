// Beyond the case table: each group has the bits that ops/linear.h gives it alone, in every family
// of products, with any number of threads, whether threads share a group or not.

#include "phalanx/ops/grouped_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "phalanx/base/test_support.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"

namespace phalanx::ops {
namespace {

using cpu::ProductPrecision;

struct Family {
  ProductPrecision products;
  DType dtype;
};
std::vector<Family> families() {
  std::vector<Family> families = {{ProductPrecision::kFp32, DType::kF32}};
  for (const auto products : {ProductPrecision::kBf16, ProductPrecision::kAmx}) {
    if (cpu::has_products(products)) families.push_back({products, DType::kBF16});
  }
  return families;
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  std::memcpy(bytes.data(), tensor.data(), bytes.size());
  return bytes;
}

class GroupedProducts : public testing::Test {
 protected:
  Tensor random(DType dtype, const Shape& shape) {
    const Tensor tensor = arena_.allocate(dtype, shape);
    std::uniform_real_distribution<float> number(-1.0F, 1.0F);
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      if (dtype == DType::kF32) tensor.as<float>()[i] = number(random_);
      if (dtype == DType::kBF16) tensor.as<bfloat16>()[i] = to_bfloat16(number(random_));
    }
    return tensor;
  }
  // Zeros.
  Tensor result(DType dtype, const Shape& shape) { return arena_.allocate(dtype, shape); }

  struct Size {
    std::vector<std::int32_t> offsets;
    std::int64_t n, k;
  };

  // All three products of all groups, and of each group alone.
  void expect_the_bits_of_groups_alone(const Family& family, int threads, const Size& size) {
    const WorkspaceScope scope(arena_);
    const auto backend = make_cpu_backend(threads, family.products);
    Context context{.backend = *backend, .workspace = workspace_};
    const auto groups = static_cast<std::int64_t>(size.offsets.size()) - 1;
    const std::int64_t rows = size.offsets.back();
    const Tensor offsets = arena_.allocate(DType::kI32, {groups + 1});
    std::ranges::copy(size.offsets, offsets.as<std::int32_t>());
    const Tensor x = random(family.dtype, {rows, size.k});
    const Tensor dy = random(family.dtype, {rows, size.n});
    const Tensor weight = random(family.dtype, {groups, size.n, size.k});
    const Tensor bias = random(family.dtype, {groups, size.n});
    const Tensor dweight = random(DType::kF32, {groups, size.n, size.k});
    const Tensor y = result(family.dtype, dy.shape), dx = result(family.dtype, x.shape);
    const Tensor y_alone = result(family.dtype, dy.shape), dx_alone = result(family.dtype, x.shape);
    const Tensor dweight_alone = result(DType::kF32, dweight.shape);
    std::memcpy(dweight_alone.data(), dweight.data(), static_cast<std::size_t>(dweight.bytes()));
    grouped_linear_forward(
        context,
        {.y = y, .x = x, .weight = weight, .offsets = offsets, .bias = bias, .bias_factors = {}});
    grouped_linear_input_gradient(context,
                                  {.dx = dx, .dy = dy, .weight = weight, .offsets = offsets});
    grouped_linear_weight_gradient(context,
                                   {.dweight = dweight, .dy = dy, .x = x, .offsets = offsets});
    for (std::int64_t e = 0; e < groups; ++e) {
      const std::int64_t begin = size.offsets[static_cast<std::size_t>(e)];
      const std::int64_t count = size.offsets[static_cast<std::size_t>(e) + 1] - begin;
      const auto of_group = [&](const Tensor& tensor) { return tensor.slice(0, begin, count); };
      linear_forward(context, {.y = of_group(y_alone),
                               .x = of_group(x),
                               .weight = weight.select(0, e),
                               .bias = bias.select(0, e)});
      linear_input_gradient(
          context, {.dx = of_group(dx_alone), .dy = of_group(dy), .weight = weight.select(0, e)});
      linear_weight_gradient(
          context, {.dweight = dweight_alone.select(0, e), .dy = of_group(dy), .x = of_group(x)});
    }
    SCOPED_TRACE(testing::Message() << name_of(family.products) << ", " << threads << " threads, "
                                    << size.n << " x " << size.k);
    EXPECT_EQ(bytes_of(y), bytes_of(y_alone)) << "forward";
    EXPECT_EQ(bytes_of(dx), bytes_of(dx_alone)) << "input gradient";
    EXPECT_EQ(bytes_of(dweight), bytes_of(dweight_alone)) << "weight gradient";
  }

  Arena arena_{"operands", 512 << 20};
  Arena workspace_{"workspace", 512 << 20};
  std::mt19937 random_{7};
};

TEST_F(GroupedProducts, HaveTheBitsOfEachGroupAlone) {
  // Groups around strips and blocks; few rows beside many columns, where operands are swapped.
  const Size sizes[] = {{{0, 31, 31, 133, 134, 620}, 200, 530},
                        {{0, 5, 5, 45, 46}, 1100, 96},
                        {{0, 0, 700, 700}, 96, 72}};
  for (const Family& family : families()) {
    for (const int threads : {1, 2, 5}) {
      for (const Size& size : sizes) expect_the_bits_of_groups_alone(family, threads, size);
    }
  }
}

// All threads share the first group; the second is one thread's or is cut.
TEST_F(GroupedProducts, HaveThemWhereThreadsShareAGroup) {
  const Size size{{0, 1300, 1380}, 520, 600};
  for (const Family& family : families()) {
    for (const int threads : {1, 2, 3}) expect_the_bits_of_groups_alone(family, threads, size);
  }
}

// Large matrices, of which tasks have a part, are summed as the whole.
TEST_F(GroupedProducts, HaveThemInPartsOfLargeMatrices) {
  if (!cpu::has_products(ProductPrecision::kAmx)) GTEST_SKIP() << "no AMX";
  expect_the_bits_of_groups_alone({ProductPrecision::kAmx, DType::kBF16}, 40,
                                  {{0, 600}, 2944, 2900});
}

TEST_F(GroupedProducts, RefuseOffsetsThatAreNot) {
  const auto backend = make_cpu_backend(1, ProductPrecision::kFp32);
  Context context{.backend = *backend, .workspace = workspace_};
  const Tensor offsets = arena_.allocate(DType::kI32, {3});
  const auto error_with = [&](std::vector<std::int32_t> numbers) {
    std::ranges::copy(numbers, offsets.as<std::int32_t>());
    return error_of<InternalError>([&] {
      grouped_linear_input_gradient(context, {.dx = result(DType::kF32, {4, 3}),
                                              .dy = result(DType::kF32, {4, 2}),
                                              .weight = result(DType::kF32, {2, 2, 3}),
                                              .offsets = offsets});
    });
  };
  EXPECT_EQ(error_with({0, 1, 4}), "no error");
  EXPECT_THAT(error_with({0, 1, 5}), testing::HasSubstr("offsets of groups: 5 behind 1 of 4 rows"));
  EXPECT_THAT(error_with({0, 3, 2}), testing::HasSubstr("offsets of groups: 2 behind 3 of 4 rows"));
  EXPECT_THAT(error_with({-1, 3, 3}), testing::HasSubstr("-1 behind 0"));
}

}  // namespace
}  // namespace phalanx::ops
