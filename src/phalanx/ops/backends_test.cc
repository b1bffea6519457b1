// The case table in its test mode: every op of the CPU backend against the reference.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>

#include "phalanx/ops/cases/compare.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"

namespace phalanx::ops {
namespace {

class CpuBackend : public testing::TestWithParam<std::string> {
 protected:
  // Calls check(row, storage type) for every row of this op.
  template <typename Check>
  void for_each_row(const Check& check) {
    int rows = 0;
    for (const Case& row : make_case_table().tests) {
      if (row.op != GetParam()) continue;
      for (const DType storage : row.storage) {
        check(row, storage);
        ++rows;
      }
    }
    EXPECT_GT(rows, 0);
  }
};

TEST_P(CpuBackend, MatchesTheReference) {
  const auto backend = make_cpu_backend(2, cpu::ProductPrecision::kFp32);
  for_each_row([&](const Case& row, DType storage) {
    EXPECT_EQ(compare_with_reference(row, storage, {*backend}), "");
  });
}

TEST_P(CpuBackend, HasTheSameBitsWithOneThreadAndTwo) {
  const auto one = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  const auto two = make_cpu_backend(2, cpu::ProductPrecision::kFp32);
  for_each_row([&](const Case& row, DType storage) {
    EXPECT_EQ(compare_bits(row, storage, {*one}, {*two}), "");
  });
}

// Every operand in its turn (a fill takes any type). Not by std::terminate: kernels look at types
// in the middle of parallel regions.
TEST_P(CpuBackend, RefusesOperandsOfAnotherType) {
  const auto backend = make_cpu_backend(2, cpu::ProductPrecision::kFp32);
  for_each_row([&](const Case& row, DType storage) {
    if (storage != DType::kF32 || row.op == "fill") return;
    for (int operand = 0;; ++operand) {
      const auto refused = refuses_disguised(row, storage, operand, {*backend});
      if (!refused) break;
      EXPECT_TRUE(*refused) << row.op << " " << row.description << ", " << name_of(storage)
                            << ": operand " << operand;
    }
  });
}

// f64 is the reference's: the CPU's kernels take it or refuse it.
TEST_P(CpuBackend, SurvivesDoubles) {
  const auto backend = make_cpu_backend(2, cpu::ProductPrecision::kFp32);
  for_each_row([&](const Case& row, DType /*storage*/) {
    EXPECT_TRUE(refuses_disguised(row, DType::kF64, -1, {*backend}).value_or(true));
  });
}

// On a host all that was enqueued has run.
TEST(HostQueues, ReadBacksAreCopiesAndEventsHavePassed) {
  const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  Arena memory("numbers", 256);
  const Tensor x = memory.allocate(DType::kI32, {2});
  const Queue compute = backend->queue(StreamKind::kCompute);
  const Queue out = backend->queue(StreamKind::kCopyOut);
  EXPECT_NE(compute.id, out.id);
  const auto upload = [&](std::array<std::int32_t, 2> numbers) {
    backend->upload(compute, x, std::as_bytes(std::span(numbers)));
  };
  upload({3, 4});
  const Event event = backend->record(compute);
  backend->wait(out, event);
  ReadBack read = backend->read_later(out, x);
  upload({5, 6});
  EXPECT_TRUE(backend->passed(event));
  EXPECT_TRUE(read.here());
  const std::span<const std::byte> bytes = read.wait();
  std::array<std::int32_t, 2> numbers{};
  ASSERT_EQ(bytes.size(), sizeof(numbers));
  std::memcpy(numbers.data(), bytes.data(), sizeof(numbers));
  EXPECT_EQ(numbers, (std::array<std::int32_t, 2>{3, 4}));
}

std::vector<std::string> tested_ops() {
  std::set<std::string> ops;
  for (const Case& row : make_case_table().tests) ops.insert(row.op);
  return {ops.begin(), ops.end()};
}

INSTANTIATE_TEST_SUITE_P(Ops, CpuBackend, testing::ValuesIn(tested_ops()),
                         [](const auto& instance) { return instance.param; });

TEST(CpuBackendBf16Products, MatchTheReference) {
  for (const auto family : {cpu::ProductPrecision::kBf16, cpu::ProductPrecision::kAmx}) {
    if (!cpu::has_products(family)) continue;
    const auto backend = make_cpu_backend(2, family);
    for (const Case& row : make_case_table().tests) {
      if (!row.product) continue;
      EXPECT_EQ(compare_with_reference(row, DType::kBF16, {*backend}), "") << cpu::name_of(family);
    }
  }
}

}  // namespace
}  // namespace phalanx::ops
