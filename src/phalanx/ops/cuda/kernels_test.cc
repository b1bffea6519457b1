// The case table on the emulated machine.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/progress.h"
#include "phalanx/cuda/emulated/driver_control.h"
#include "phalanx/cuda/emulated/machine.h"
#include "phalanx/ops/attention.h"
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

// Forward and backward of rows of 16 bits, on tensor cores and in tiles.
struct Exactly {
  std::int64_t width;
  DType results;
  bool adds = false;

  ops::Case row(bool backward) const {
    const auto build = [=, *this](ops::Operands& operands) {
      const Shape heads{70, 1, 2, width}, groups{67, 1, 1, width}, statistics{1, 2, 70};
      ops::AttentionInputs in;
      in.query = operands.uniform(heads);
      in.key = operands.uniform(groups);
      in.value = operands.uniform(groups);
      in.query_rows = operands.rows(70, 1);
      in.key_rows = operands.rows(67, 1);
      const ops::AttentionForward forward{.out = operands.output(results, heads),
                                          .lse = operands.output(DType::kF32, statistics),
                                          .in = in};
      if (!backward) return ops::make_job(forward, ops::attention_forward, {{forward.out}});
      ops::AttentionBackward op;
      op.dquery = operands.filled(results, heads, 0.25);
      op.dkey = operands.output(results, groups);
      op.dvalue = operands.output(results, groups);
      op.dout = operands.uniform(heads);
      op.lse = operands.filled(DType::kF32, statistics, 5.0);
      op.delta = operands.filled(DType::kF32, statistics, 0.125);
      op.in = in;
      op.adds_to_dquery = adds;
      return ops::make_job(op, ops::attention_backward, {{op.dquery}, {op.dkey}, {op.dvalue}});
    };
    return {"attention", "exactly", ops::k16BitTypes, build};
  }
};

// Results in full precision are what storage rounds; dquery gets it added once.
TEST(CudaAttention, FullPrecisionIsWhatStorageRounds) {
  reset_driver();
  {
    const auto backend = make_cuda_backend(0, note_progress);
    const auto memory = device_memory(0);
    const auto numbers = [&](const Exactly& call, bool backward) {
      const auto bytes =
          ops::output_bits(call.row(backward), DType::kBF16, ops::Machine{*backend, *memory});
      std::vector<float> values(bytes.size() / static_cast<std::size_t>(size_of(call.results)));
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (call.results == DType::kF32) {
          std::memcpy(&values[i], bytes.data() + 4 * i, 4);
        } else {
          bfloat16 stored;
          std::memcpy(&stored, bytes.data() + 2 * i, 2);
          values[i] = to_float(stored);
        }
      }
      return values;
    };
    for (const std::int64_t width : {24, 17}) {
      for (const bool backward : {false, true}) {
        const std::vector<float> stored = numbers({width, DType::kBF16}, backward);
        const std::vector<float> full = numbers({width, DType::kF32}, backward);
        const std::vector<float> added = numbers({width, DType::kF32, true}, backward);
        ASSERT_EQ(full.size(), stored.size());
        int rounded = 0;
        for (std::size_t i = 0; i < full.size(); ++i) {
          ASSERT_EQ(to_float(to_bfloat16(full[i])), stored[i]) << i;
          rounded += full[i] != stored[i] ? 1 : 0;
          const bool of_dquery = backward && i < static_cast<std::size_t>(70 * 2 * width);
          ASSERT_EQ(added[i], of_dquery ? 0.25F + full[i] : full[i]) << i;
        }
        EXPECT_GT(rounded, 1000);
      }
    }
  }
  reset_driver();
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
