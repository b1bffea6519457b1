// The case table on the emulated machine.

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/cuda/emulated/machine.h"
#include "phalanx/ops/cases/compare.h"
#include "phalanx/ops/cuda/test_support.h"

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

}  // namespace
}  // namespace phalanx::cuda
