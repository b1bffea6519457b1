// Self attention with what today's decoders have: rotary positions, norms of heads, grouped
// queries, windows, no biases. In double on the reference.

#include "phalanx/nn/self_attention.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/nn/parallel_test_support.h"
#include "phalanx/nn/test_support.h"
#include "phalanx/nn/transformer_layer.h"
#include "phalanx/ops/cases/differentiate.h"

namespace phalanx::nn {
namespace {

struct Variant {
  std::string name;
  TransformerConfig config;
  friend void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
};

// Heads of 6 features in 2 groups; the batch's second document begins at position 0 again.
TransformerConfig rotary_config() {
  TransformerConfig config = test_config();
  config.query_groups = 2;
  config.head_size = 6;
  config.qkv_bias = false;
  config.linear_bias = false;
  config.rotary = ops::Rotary{.dimensions = 6, .base = 100.0};
  config.position_column = kTestEmbeddingColumns.position_ids;
  config.max_positions = 8;
  return config;
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  const auto add = [&](std::string name, const auto& change) {
    TransformerConfig config = rotary_config();
    change(config);
    all.push_back({std::move(name), config});
  };
  add("half", [](TransformerConfig&) {});
  add("interleaved", [](TransformerConfig& c) { c.rotary->interleaved = true; });
  add("part_of_the_head", [](TransformerConfig& c) { c.rotary->dimensions = 4; });
  add("factor", [](TransformerConfig& c) { c.rotary->attention_factor = 1.5; });
  add("biases", [](TransformerConfig& c) { c.qkv_bias = c.linear_bias = true; });
  add("unfused", [](TransformerConfig& c) { c.attention = AttentionKernel::kUnfused; });
  add("window", [](TransformerConfig& c) { c.window = 2; });
  add("window_unfused", [](TransformerConfig& c) {
    c.window = 3;
    c.attention = AttentionKernel::kUnfused;
    c.recompute_core_attention = true;
  });
  add("head_norms", [](TransformerConfig& c) { c.qk_norm = true; });
  // Without rotation nothing would depend on a bias of all keys.
  add("head_norms_of_single_heads", [](TransformerConfig& c) {
    c.qk_norm = true;
    c.query_groups = 4;
  });
  add("rms_norms_alone", [](TransformerConfig& c) {
    c.qk_norm = true;
    c.norm = NormKind::kRmsNorm;
    c.rotary.reset();
  });
  add("rms_norms_zero_centred", [](TransformerConfig& c) {
    c.qk_norm = true;
    c.norm = NormKind::kRmsNorm;
    c.norm_zero_centred = true;
    c.rotary->dimensions = 4;
  });
  add("everything", [](TransformerConfig& c) {
    c.qk_norm = true;
    c.qkv_bias = true;
    c.query_groups = 1;
    c.window = 3;
    c.mask_documents = true;
    c.rotary->interleaved = true;
    c.rotary->dimensions = 4;
  });
  return all;
}

class SelfAttentionVariants : public testing::TestWithParam<Variant> {
 protected:
  TestMachine machine_;
};

TEST_P(SelfAttentionVariants, MatchDifferences) {
  const TransformerConfig& config = GetParam().config;
  const ops::GradientCase row{"self_attention", GetParam().name, [&](ops::Operands& operands) {
                                const auto all = std::make_shared<LayerFixture>();
                                const auto unit = std::make_shared<SublayerUnit>(
                                    all->table, config, make_test_attention);
                                all->allocate(operands, unit->saved_slots());
                                return unit_job(operands, all, unit);
                              }};
  EXPECT_EQ(ops::compare_with_differences(row), "");
}

// recompute() also works after backward, because the linear rewrites its output before the rotation
// in place.
TEST_P(SelfAttentionVariants, RecomputedGiveTheSameGradients) {
  LayerFixture all;
  expect_recomputed_gradients(machine_, all,
                              SublayerUnit(all.table, GetParam().config, make_test_attention));
}

TEST_P(SelfAttentionVariants, CachedAreTheWholePass) {
  expect_cached_is_whole(machine_, GetParam().config, {{0, 2}, {2, 1}, {3, 1}, {4, 1}});
}

// Heads cut over tensor-parallel ranks, also with fewer groups than ranks: the gradients of the
// heads' norms are summed over all ranks.
TEST_P(SelfAttentionVariants, CutOverRanksAreTheWholeLayer) {
  UnitRun run{
      .make = [](ParamTable& table, const TransformerConfig& config) -> std::unique_ptr<Unit> {
        return std::make_unique<SublayerUnit>(table, config, make_test_attention);
      },
      .config = GetParam().config};
  const UnitResult expected = result_of(run);
  for (const int size : {2, 4}) {
    for (const bool sequence : {false, true}) {
      SCOPED_TRACE(fmt::format("{} ranks, sequence parallel {}", size, sequence));
      run.config.tensor = {.size = size, .sequence = sequence};
      expect_near(result_of(run), expected, 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SelfAttentionVariants, testing::ValuesIn(variants()),
                         [](const auto& instance) { return instance.param.name; });

// Scores of rotated heads depend only on the distance of rows: when all positions are moved, the
// output stays the same. With a window, keys further away do not count.
TEST(SelfAttention, SeesDistancesAndTheWindow) {
  TestMachine machine;
  Context& context = machine.context;
  ops::Operands& operands = machine.operands;
  TransformerConfig config = rotary_config();
  config.window = 2;
  LayerFixture all;
  const SublayerUnit unit(all.table, config, make_test_attention);
  all.allocate(operands, unit.saved_slots());
  const std::vector<Tensor> in = {all.stream(operands, 10)};
  const std::vector<Tensor> out = {all.empty_stream(operands, 10)};
  Pass pass = all.pass(context);
  pass.training = false;
  const auto row = [&](std::int64_t s) { return values_of(out[0].select(0, s)); };
  const auto ids = all.batch.columns[kTestEmbeddingColumns.position_ids].span<std::int32_t>();
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i / 2);
  unit.forward(pass, in, out, all.saved());
  const Values all_rows = values_of(out[0]);
  for (std::int32_t& id : ids) id += 3;
  unit.forward(pass, in, out, all.saved());
  const Values moved = values_of(out[0]);
  for (std::size_t i = 0; i < moved.size(); ++i) EXPECT_NEAR(moved[i], all_rows[i], 1e-12);
  // Row 1 changes: only rows 1 and 2 see it.
  std::vector<Values> before;
  for (std::int64_t s = 0; s < 5; ++s) before.push_back(row(s));
  in[0].select(0, 1).span<double>()[4] += 1.0;
  unit.forward(pass, in, out, all.saved());
  for (const std::int64_t s : {0, 3, 4}) EXPECT_EQ(row(s), before[s]) << s;
  for (const std::int64_t s : {1, 2}) EXPECT_NE(row(s), before[s]) << s;
  // At another distance of two rows the output differs.
  ids[2] += 1;
  unit.forward(pass, in, out, all.saved());
  EXPECT_NE(row(2), before[2]);
}

// All layers of a stack share one table of cosines.
TEST(SelfAttention, ShareOneTable) {
  ParamTable table;
  const TransformerLayer first(table, 0, 0, rotary_config());
  const TransformerLayer second(table, 1, 1, rotary_config());
  ASSERT_EQ(table.constants().size(), 1U);
  EXPECT_EQ(table.constants()[0].shape, (Shape{8, 6}));
}

// Without norms of heads nothing more is saved than without rotation.
TEST(SelfAttention, SaveNothingForARotation) {
  const auto names = [](const TransformerConfig& config) {
    ParamTable table;
    std::vector<std::pair<std::string, Shape>> slots;
    const TransformerLayer layer(table, 0, 0, config);
    for (const SavedSlot& slot : layer.saved_slots()) {
      slots.emplace_back(slot.name, slot.shape({.sequence = 5, .micro_batch = 2}));
    }
    return slots;
  };
  TransformerConfig plain = rotary_config();
  plain.rotary.reset();
  EXPECT_EQ(names(rotary_config()), names(plain));
}

}  // namespace
}  // namespace phalanx::nn
