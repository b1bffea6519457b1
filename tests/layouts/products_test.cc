// Layouts whose bf16 products and fused attention are of a family with an order of sums of its own:
// bf16 dot products, AMX's tiles. A layout cuts products and attention, which each family must
// survive with the bits that its order promises, and with one rank's numbers to rounding. Tiles are
// those of the plain C++ twin where the processor has none.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compare.h"
#include "expectations.h"
#include "golden_digests.h"
#include "phalanx/ops/cpu/precision.h"

namespace phalanx {
namespace {

using Family = cpu::ProductPrecision;

// Of experts the first step alone: its update rounds weights otherwise, and then tokens choose
// other experts.
int steps_of(const Layout& layout) { return layout.experts > 0 ? 1 : 3; }

std::vector<Layout> layouts() {
  std::vector<Layout> layouts = {
      // Rows and columns of weights; columns of linear_qkv that several ranks have.
      {.tensor = 4,
       .sequence_parallel = true,
       .recompute = Recompute::kUniform2,
       .micro_batch = 2,
       .groups = 2},
      {.tensor = 2, .recompute = Recompute::kSelective, .fused_attention = false, .tied = false},
      // Weights that are gathered, and come from files.
      {.data = 2,
       .zero = {.stage = 3, .prefetch = 2},
       .files = Files::kBoth,
       .small_buckets = true},
      // Parts of attention.
      {.context = 2, .micro_batch = 2},
      {.data = 2, .context = 2, .exchange = "a2a", .zero = {.stage = 1}, .documents = true},
      {.context = 2, .exchange = "all_gather", .storage = StorageType::kBF16ResidualF32},
      // Weight gradients apart from input gradients.
      {.tensor = 2, .pipeline = 2, .schedule = "zb-v", .chunks = 2, .layers = 4},
      {.tensor = 2, .sequence_parallel = true, .groups = 2, .family = "llama", .qkv_extras = true},
      {.tensor = 2, .family = "bert"},
      {.tensor = 2, .layers = 2, .family = "t5", .decoder_layers = 2, .relative_positions = true},
      // Grouped products.
      {.data = 2, .layers = 2, .experts = 4, .expert_parallel = 2},
      {.tensor = 2,
       .data = 2,
       .sequence_parallel = true,
       .layers = 2,
       .experts = 4,
       .expert_parallel = 2,
       .expert_tensor = 2},
  };
  for (Layout& layout : layouts) {
    if (layout.storage == StorageType::kF32) layout.storage = StorageType::kBF16;
  }
  return layouts;
}

class ProductMatrix : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == name_of(Family::kBf16) && !cpu::has_products(Family::kBf16)) {
      GTEST_SKIP() << "no bf16 dot products";
    }
  }
};

TEST_P(ProductMatrix, TrainsAsOneRankDoes) {
  Trainings trainings;
  for (Layout layout : layouts()) {
    layout.products = GetParam();
    SCOPED_TRACE(name_of(layout));
    const TrainingResult result = expect_training(layout, steps_of(layout), trainings);
    expect_golden_digest(result, layout);
    if (layout.pipeline > 1) continue;
    expect_close(result, trainings.of(on_one_rank(layout), steps_of(layout)), layout);
  }
}

// What the test above rests on.
TEST_P(ProductMatrix, HasBitsOfItsOwn) {
  const Layout fp32{.storage = StorageType::kBF16};
  Layout layout = fp32;
  layout.products = GetParam();
  Trainings trainings;
  EXPECT_NE(first_difference(trainings.of(layout, 1), trainings.of(fp32, 1)), "");
}

INSTANTIATE_TEST_SUITE_P(Families, ProductMatrix, testing::Values("bf16", "amx2"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace phalanx
