#include "phalanx/cuda/lt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/cuda/emulated/driver_control.h"

namespace phalanx::cuda {
namespace {

class LtTest : public testing::Test {
 protected:
  LtTest() { reset_driver(); }
  ~LtTest() override { reset_driver(); }

  static LtProduct product() {
    LtProduct product;
    product.m = 3;
    product.n = 2;
    product.k = 4;
    product.lda = 3;
    product.ldb = 4;
    product.ldd = 3;
    return product;
  }
};

TEST_F(LtTest, MultipliesColumns) {
  Lt lt(0);
  const Queue queue = make_queue(0);
  auto* host = reinterpret_cast<float*>(allocate_pinned(4096));
  auto* a = reinterpret_cast<float*>(allocate(0, 64));
  auto* b = reinterpret_cast<float*>(allocate(0, 64));
  auto* d = reinterpret_cast<float*>(allocate(0, 64));
  std::byte* workspace = allocate(0, lt.workspace_bytes());
  for (int i = 0; i < 12; ++i) host[i] = static_cast<float>(i + 1);      // A, columns of 3
  for (int i = 0; i < 8; ++i) host[16 + i] = static_cast<float>(i - 3);  // B, columns of 4
  for (int i = 0; i < 6; ++i) host[32 + i] = 100.0F;
  copy(queue, a, host, 48);
  copy(queue, b, host + 16, 32);
  copy(queue, d, host + 32, 24);
  LtProduct p = product();
  lt.multiply(queue, p, lt.choose(p), {a, b, d, nullptr}, workspace);
  copy(queue, host + 48, d, 24);
  p.accumulate = true;
  lt.multiply(queue, p, lt.choose(p), {a, b, d, nullptr}, workspace);
  copy(queue, host + 64, d, 24);
  wait_host(queue);
  // Row 1, column 1: (2, 5, 8, 11) (1, 2, 3, 4).
  EXPECT_EQ(host[48 + 3 + 1], 80.0F);
  EXPECT_EQ(host[64 + 3 + 1], 160.0F);
  // Row 0, column 0: (1, 4, 7, 10) (-3, -2, -1, 0).
  EXPECT_EQ(host[48], -18.0F);
  give_back_pinned(reinterpret_cast<std::byte*>(host));
}

TEST_F(LtTest, RefusesWhatTheLibraryDoesNotPromise) {
  Lt lt(0);
  const auto refusal = [&](const LtProduct& p) {
    return error_of<InternalError>([&] { lt.choose(p); });
  };
  EXPECT_EQ(refusal(product()), "no error");
  LtProduct p = product();
  p.k = 0;
  EXPECT_THAT(refusal(p), testing::HasSubstr("a product of 3 x 2 x 0"));
  p = product();
  p.type_ab = DType::kI32;
  EXPECT_THAT(refusal(p), testing::HasSubstr("a product of i32"));
  p = product();
  p.type_d = DType::kBF16;
  EXPECT_THAT(refusal(p), testing::HasSubstr("a product of f32 to bf16"));
  p = product();
  p.transpose_a = true;
  EXPECT_THAT(refusal(p), testing::HasSubstr("leading dimensions 3, 4, 3"));
  p = product();
  p.ldd = 2;
  EXPECT_THAT(refusal(p), testing::HasSubstr("leading dimensions"));
  p = product();
  p.bias = p.accumulate = true;
  EXPECT_THAT(refusal(p), testing::HasSubstr("a bias is added to a fresh product"));
  p = product();
  p.type_ab = DType::kBF16;
  p.tf32 = true;
  EXPECT_THAT(refusal(p), testing::HasSubstr("tf32 is of f32 operands"));

  const Queue queue = make_queue(0);
  std::byte* memory = allocate(0, 4096);
  std::byte* workspace = allocate(0, lt.workspace_bytes());
  p = product();
  EXPECT_THAT(
      error_of<InternalError>([&] {
        lt.multiply(queue, p, lt.choose(p), {memory, memory + 4, memory + 256, nullptr}, workspace);
      }),
      testing::HasSubstr("B of a product is not a multiple of 16"));
  LtProduct other = p;
  other.n = 1;
  EXPECT_THAT(
      error_of<InternalError>([&] {
        lt.multiply(queue, p, lt.choose(other), {memory, memory, memory + 256, nullptr}, workspace);
      }),
      testing::HasSubstr("chosen for another product"));
}

}  // namespace
}  // namespace phalanx::cuda
