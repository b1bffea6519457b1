#include "phalanx/planner/prediction_basis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/planner/step_time.h"
#include "phalanx/planner/test_support.h"

namespace phalanx {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

RunPlan small_plan() {
  TrainConfig config =
      with_flags({},
                 "--num-layers 1 --hidden-size 512 --num-attention-heads 8 --seq-length 128 "
                 "--max-position-embeddings 128 --bf16 --micro-batch-size 1 --global-batch-size 1 "
                 "--make-vocab-size-divisible-by 1");
  resolve(config, false);
  return plan_run(config, 1024, {cpu::ProductPrecision::kFp32});
}

PredictionBasis basis_with(const std::vector<MeasuredProduct>& products) {
  Machine machine = machine_of("h100");
  machine.device.measured_products = products;
  return predict_step(small_plan(), machine).basis;
}

MeasuredProduct measured_at(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {{m, n, k, 1, ProductType::kBF16}, measured(1.1, "here")};
}

TEST(PredictionBasis, NamesTheNumbersByWhereTheyComeFrom) {
  Machine machine = machine_of("h100");
  machine.device.op_rates = {{"copy_bf16", measured(1e12, "here")},
                             {"copy_f32", measured(1e12, "here")}};
  machine.cluster.measured_ranks[4] = {measured(1e-5, "here"), measured(1e11, "here")};
  const PredictionBasis basis = basis_of({}, machine);
  EXPECT_THAT(basis.keys.at(Origin::kDataSheet), Contains("peak_bf16"));
  EXPECT_THAT(basis.keys.at(Origin::kMeasured), ElementsAre("ranks_4", "op_rate_* (2)"));
  EXPECT_THAT(to_text(basis), HasSubstr("  measured: ranks_4 op_rate_* (2)\n"));
  EXPECT_THAT(to_text(basis), HasSubstr("  assumed, not measured: "));
  EXPECT_THAT(to_text(basis), Not(HasSubstr("warning")));
}

TEST(PredictionBasis, TellsOfProductsThatAreUnlikeAllThatWereMeasured) {
  EXPECT_THAT(basis_with({}).unlike_measured, IsEmpty());
  // Far from everything.
  const PredictionBasis none = basis_with({measured_at(8, 8, 8)});
  ASSERT_GT(none.unlike_measured.size(), 6U);
  EXPECT_EQ(none.unlike_measured.front(), "bf16 128x2048x512");
  EXPECT_THAT(to_text(none), HasSubstr("no product like these was measured"));
  EXPECT_THAT(to_text(none), HasSubstr(" more\n"));
  // Within two doublings of the largest, and of others.
  const PredictionBasis some = basis_with({measured_at(256, 4096, 512)});
  EXPECT_THAT(some.unlike_measured, Not(Contains("bf16 128x2048x512")));
  EXPECT_LT(some.unlike_measured.size(), none.unlike_measured.size());
}

}  // namespace
}  // namespace phalanx
