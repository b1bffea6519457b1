// The case table on the emulated machine, and the digests that a device must have.

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/cuda/emulated/machine.h"
#include "phalanx/ops/cases/compare.h"
#include "phalanx/ops/cuda/check/expected.h"
#include "phalanx/ops/cuda/test_support.h"
#include "tests/paths.h"

namespace phalanx::cuda {
namespace {

class CudaKernels : public testing::TestWithParam<std::string> {};

// Every row of the table in one order of threads; in every order at night.
TEST_P(CudaKernels, MatchTheReference) {
  const auto backend = make_mirror_backend();
  const bool nightly = std::getenv("PHALANX_NIGHTLY") != nullptr;
  std::uint64_t number = 0;
  for (const ops::Case& row : ops::make_case_table().tests) {
    if (row.op != GetParam()) continue;
    for (const DType storage : row.storage) {
      for (std::uint64_t turn = 0; turn < (nightly ? 3 : 1); ++turn) {
        const std::uint64_t seed = (number + turn) % 3;
        emulated_machine().set_seed(seed);
        emulated_machine().set_backwards(seed == 1);
        EXPECT_EQ(ops::compare_with_reference(row, storage, *backend), "") << "seed " << seed;
      }
      ++number;
    }
  }
  EXPECT_GT(number, 0U);
  reset_driver();
}

std::vector<std::string> tested_ops() {
  std::set<std::string> names;
  for (const ops::Case& row : ops::make_case_table().tests) {
    if (has_cuda_op(row.op)) names.insert(row.op);
  }
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaKernels, testing::ValuesIn(tested_ops()),
                         [](const auto& instance) { return instance.param; });

// A change of a kernel's bits is told: build/release/check_device_emulated --record
// src/phalanx/ops/cuda/check/expected.txt writes the new ones, and a device is checked against
// them.
TEST(CudaChecks, HaveTheStoredDigests) {
  emulated_machine().set_seed(2);
  const Expected expected = read_expected(source_path("src/phalanx/ops/cuda/check/expected.txt"));
  Workbench bench(0, std::int64_t{16} << 20);
  std::set<std::string> names;
  for (const ExactCheck& check : all_exact_checks()) {
    bench.clear();
    names.insert(check.name);
    const auto entry = expected.find(check.name);
    ASSERT_NE(entry, expected.end()) << check.name;
    EXPECT_EQ(digest_parts(check.run(bench)).parts, entry->second.parts) << check.name;
  }
  for (const auto& [name, digest] : expected) EXPECT_TRUE(names.contains(name)) << name;
}

TEST(CudaChecks, FunctionsAndProductsAreNearDouble) {
  Workbench bench(0, std::int64_t{16} << 20);
  for (const ApproximateCheck& check : approximate_checks()) {
    bench.clear();
    EXPECT_LE(check.error(bench), check.tolerance) << check.name;
  }
}

}  // namespace
}  // namespace phalanx::cuda
