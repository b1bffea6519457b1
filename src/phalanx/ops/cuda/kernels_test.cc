// The case table on the emulated machine.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/progress.h"
#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/cuda/emulated/machine.h"
#include "phalanx/ops/cases/compare.h"
#include "phalanx/ops/cuda/cuda_backend.h"
#include "phalanx/ops/cuda/device_memory.h"

namespace phalanx::cuda {
namespace {

class CudaKernels : public testing::TestWithParam<std::string> {
 protected:
  CudaKernels() { reset_driver(); }
  ~CudaKernels() override {
    backend_.reset();
    memory_.reset();
    reset_driver();
  }

  // `every_type` is false: of each row one type, in turn.
  template <typename Check>
  void for_each_row(bool every_type, const Check& check) {
    backend_ = make_cuda_backend(0, note_progress);
    memory_ = device_memory(0);
    int rows = 0;
    for (const ops::Case& row : ops::make_case_table().tests) {
      if (row.op != GetParam()) continue;
      const auto turn = static_cast<std::size_t>(rows) % row.storage.size();
      for (const DType storage : every_type ? row.storage : row.storage.subspan(turn, 1)) {
        check(row, storage, ops::Machine{*backend_, *memory_});
        ++rows;
      }
    }
    EXPECT_GT(rows, 0);
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ArenaMemory> memory_;
};

// Every row of the table in one order of threads; in every order at night. A tile of attention
// costs a millisecond, so its rows have one type each by day.
TEST_P(CudaKernels, MatchTheReference) {
  const bool nightly = std::getenv("PHALANX_NIGHTLY") != nullptr;
  const bool every_type = nightly || GetParam().find("attention_") == std::string::npos;
  std::uint64_t number = 0;
  for_each_row(every_type, [&](const ops::Case& row, DType storage, const ops::Machine& machine) {
    for (std::uint64_t turn = 0; turn < (nightly ? 3 : 1); ++turn) {
      const std::uint64_t seed = (number + turn) % 3;
      emulated_machine().set_seed(seed);
      emulated_machine().set_backwards(seed == 1);
      EXPECT_EQ(ops::compare_with_reference(row, storage, machine), "") << "seed " << seed;
    }
    ++number;
  });
}

std::vector<std::string> ops_of_table() {
  std::set<std::string> names;
  for (const ops::Case& row : ops::make_case_table().tests) names.insert(row.op);
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaKernels, testing::ValuesIn(ops_of_table()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace phalanx::cuda
