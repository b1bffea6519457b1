#include "phalanx/model/chunk.h"

#include <gtest/gtest.h>

#include <map>

#include "phalanx/model/test_support.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {
namespace {

using nn::PassKind;

class Chunks : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_ref_backend();
  Arena memory_{"operands", 8 << 20};
  Arena workspace_{"workspace", 1 << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
};

std::vector<std::vector<double>> contents(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<double>> result;
  for (const auto& tensor : tensors) result.push_back(nn::values_of(tensor));
  return result;
}

TEST_F(Chunks, FusedBackwardIsInputThenWeightBitForBit) {
  std::vector<std::vector<double>> gradients[2];
  for (const bool fused : {false, true}) {
    Arena memory("operands", 8 << 20);
    ops::Operands operands(memory, DType::kF64, context_);
    GptFixture gpt(operands, test_gpt_config(true));
    gpt.forward(context_);
    if (fused) {
      gpt.backward(context_);
    } else {
      nn::Pass pass = gpt.all.pass(context_);
      gpt.chunk.backward_input(pass, gpt.tensors, gpt.hooks, 0);
      gpt.chunk.backward_weight(pass, gpt.tensors, gpt.all.gradients, gpt.hooks, 0);
    }
    gpt.all.join(context_);
    gradients[fused ? 1 : 0] = contents(gpt.all.gradient_tensors);
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

// A model cut in two chunks, the stream and its gradient carried over, is the whole model bit for
// bit: what a pipeline relies on.
TEST_F(Chunks, TwoStagesAreTheWhole) {
  ops::Operands operands(memory_, DType::kF64, context_);
  GptFixture gpt(operands, test_gpt_config(false));
  gpt.forward(context_);
  gpt.backward(context_);
  const auto whole = contents(gpt.all.gradient_tensors);
  const double loss = nn::values_of(gpt.all.losses.sum)[0];

  nn::ParamTable table;
  const Chunk first = build_gpt_chunk(gpt.config, {0, 1, true, false}, table);
  const Chunk second = build_gpt_chunk(gpt.config, {1, 1, false, true}, table);
  for (const auto& gradient : gpt.all.gradient_tensors) {
    ops::fill(context_, {.x = gradient, .value = 0.0});
  }
  ops::fill(context_, {.x = gpt.all.losses.sum, .value = 0.0});
  const auto allocate = [&](const Chunk& chunk) {
    std::vector<Tensor> tensors;
    for (const auto& saved : chunk.saved_tensors(gpt.all.shape, false)) {
      tensors.push_back(operands.output(saved.dtype, saved.shape));
    }
    return tensors;
  };
  const auto first_blocks = allocate(first);
  const auto second_blocks = allocate(second);
  nn::Pass pass = gpt.all.pass(context_);
  first.forward(pass, first_blocks, gpt.hooks, 0);
  ops::copy(context_, {.destination = second.input_streams(second_blocks)[0],
                       .source = first.output_streams(first_blocks)[0]});
  second.forward(pass, second_blocks, gpt.hooks, 0);
  second.backward(pass, second_blocks, gpt.all.gradients, gpt.hooks, 0);
  ops::copy(context_, {.destination = first.output_gradients(first_blocks)[0],
                       .source = second.input_gradients(second_blocks)[0]});
  first.backward(pass, first_blocks, gpt.all.gradients, gpt.hooks, 0);
  EXPECT_EQ(nn::values_of(gpt.all.losses.sum)[0], loss);
  EXPECT_EQ(contents(gpt.all.gradient_tensors), whole);
}

class Recording final : public nn::UnitHooks {
 public:
  void before(const nn::Unit& unit, PassKind pass, int microbatch) override {
    log += fmt::format("<{} {} {}\n", unit.name(), static_cast<int>(pass), microbatch);
  }
  void after(const nn::Unit& unit, PassKind pass, int microbatch,
             const nn::UnitTensors& tensors) override {
    log += fmt::format(">{} {} {}\n", unit.name(), static_cast<int>(pass), microbatch);
    const bool is_forward = pass == PassKind::kForward;
    EXPECT_EQ(tensors.inputs.size(), unit.inputs().size());
    EXPECT_EQ(tensors.outputs.size(), is_forward ? unit.outputs().size() : 0U);
    EXPECT_EQ(tensors.output_gradients.size(), is_forward ? 0U : unit.outputs().size());
    EXPECT_EQ(tensors.input_gradients.size(), is_forward ? 0U : unit.inputs().size());
    EXPECT_EQ(tensors.slots.size(), unit.saved_slots().size());
    EXPECT_EQ(tensors.gradients != nullptr, pass == PassKind::kBackwardWeight);
    // Hooks that read a gradient do so before a reduction may begin to change it.
    if (pass == PassKind::kBackwardWeight) {
      for (const ParamId id : unit.parameters()) looked_at[id] = true;
    }
  }
  void grad_ready(ParamId id, int microbatch) override {
    EXPECT_TRUE(looked_at[id]) << id;
    ++ready[id];
    EXPECT_EQ(microbatch, 3);
  }
  std::string log;
  std::map<ParamId, int> ready;
  std::map<ParamId, bool> looked_at;
};

TEST_F(Chunks, HooksAroundEveryUnit) {
  ops::Operands operands(memory_, DType::kF64, context_);
  GptConfig config = test_gpt_config(false);
  config.transformer.num_layers = 1;
  GptFixture gpt(operands, config);
  Recording hooks;
  nn::Pass pass = gpt.all.pass(context_);
  gpt.chunk.forward(pass, gpt.tensors, hooks, 3);
  EXPECT_EQ(hooks.log,
            "<embedding 0 3\n>embedding 0 3\n<layer 0 0 3\n>layer 0 0 3\n<head 0 3\n>head 0 3\n");
  EXPECT_TRUE(hooks.ready.empty());
  hooks.log.clear();
  gpt.chunk.backward(pass, gpt.tensors, gpt.all.gradients, hooks, 3);
  EXPECT_EQ(hooks.log,
            "<head 1 3\n<head 2 3\n>head 1 3\n>head 2 3\n"
            "<layer 0 1 3\n<layer 0 2 3\n>layer 0 1 3\n>layer 0 2 3\n"
            "<embedding 1 3\n<embedding 2 3\n>embedding 1 3\n>embedding 2 3\n");
  EXPECT_EQ(static_cast<ParamId>(hooks.ready.size()), gpt.all.table.size());
  for (const auto& [id, times] : hooks.ready) EXPECT_EQ(times, 1) << id;
}

// Recomputation is a pass of its own, of all units of a group, before the backward pass of the
// last.
TEST_F(Chunks, HooksAreToldOfRecomputation) {
  ops::Operands operands(memory_, DType::kF64, context_);
  GptConfig config = test_gpt_config(false);
  config.transformer.num_layers = 3;
  config.recompute = {.method = RecomputePlan::Method::kUniform, .num_layers = 2};
  GptFixture gpt(operands, config);
  std::vector<int> recomputed_until;
  for (int unit = 0; unit < gpt.chunk.num_units(); ++unit) {
    recomputed_until.push_back(gpt.chunk.recomputed_until(unit));
  }
  EXPECT_EQ(recomputed_until, (std::vector<int>{-1, 2, 2, 3, -1}));
  Recording hooks;
  nn::Pass pass = gpt.all.pass(context_);
  gpt.chunk.forward(pass, gpt.tensors, hooks, 3);
  hooks.log.clear();
  gpt.chunk.backward(pass, gpt.tensors, gpt.all.gradients, hooks, 3);
  EXPECT_EQ(hooks.log,
            "<head 1 3\n<head 2 3\n>head 1 3\n>head 2 3\n"
            "<layer 2 3 3\n<layer 2 1 3\n<layer 2 2 3\n>layer 2 1 3\n>layer 2 2 3\n"
            "<layer 0 3 3\n<layer 1 3 3\n<layer 1 1 3\n<layer 1 2 3\n>layer 1 1 3\n>layer 1 2 3\n"
            "<layer 0 1 3\n<layer 0 2 3\n>layer 0 1 3\n>layer 0 2 3\n"
            "<embedding 1 3\n<embedding 2 3\n>embedding 1 3\n>embedding 2 3\n");
}

// A tied word table's gradient is ready twice: after the head and after the embedding.
TEST_F(Chunks, TiedTableIsReadyTwice) {
  ops::Operands operands(memory_, DType::kF64, context_);
  GptFixture gpt(operands, test_gpt_config(true));
  Recording hooks;
  nn::Pass pass = gpt.all.pass(context_);
  gpt.chunk.forward(pass, gpt.tensors, hooks, 3);
  gpt.chunk.backward(pass, gpt.tensors, gpt.all.gradients, hooks, 3);
  EXPECT_EQ(hooks.ready[0], 2);
  EXPECT_EQ(hooks.ready[1], 1);
}

// Evaluation holds nothing beyond its forward pass and has no gradients.
TEST_F(Chunks, ForwardOnlyBlocks) {
  nn::ParamTable table;
  const Chunk chunk = build_gpt_chunk(test_gpt_config(true), {0, 2, true, true}, table);
  const nn::BatchShape shape{.sequence = 5, .micro_batch = 2};
  const auto training = chunk.saved_tensors(shape, false);
  const auto evaluation = chunk.saved_tensors(shape, true);
  ASSERT_EQ(training.size(), evaluation.size());
  for (std::size_t i = 0; i < training.size(); ++i) {
    EXPECT_EQ(evaluation[i].born.pass, PassKind::kForward) << evaluation[i].name;
    EXPECT_EQ(evaluation[i].last.pass, PassKind::kForward) << evaluation[i].name;
    EXPECT_LE(evaluation[i].born.unit, evaluation[i].last.unit) << evaluation[i].name;
    const bool gradient = training[i].born.pass != PassKind::kForward;
    EXPECT_EQ(evaluation[i].bytes(), gradient ? 0 : training[i].bytes()) << evaluation[i].name;
  }
}

// What a chunk exchanges with its neighbours lives from or until a point outside its units; within
// them a stage in the middle is like any other.
TEST_F(Chunks, EndsLiveBeyondTheUnits) {
  using Point = std::pair<PassKind, int>;
  const auto point = [](const PassPoint& at) { return Point(at.pass, at.unit); };
  for (const RecomputePlan& recompute :
       {RecomputePlan{}, RecomputePlan{.method = RecomputePlan::Method::kUniform, .num_layers = 2},
        RecomputePlan{
            .method = RecomputePlan::Method::kUniform, .num_layers = 1, .input_shards = 2}}) {
    GptConfig config = test_gpt_config(false);
    config.transformer.num_layers = 4;
    config.recompute = recompute;
    nn::ParamTable table;
    const Chunk chunk = build_gpt_chunk(config, {1, 2, false, false}, table);
    ASSERT_EQ(chunk.inputs().size(), 1U);
    ASSERT_EQ(chunk.outputs().size(), 1U);
    for (const bool forward_only : {false, true}) {
      const auto saved_tensors =
          chunk.saved_tensors(nn::BatchShape{.sequence = 4, .micro_batch = 2}, forward_only);
      // The saved tensor that an accessor returns, found by its place in `tensors`.
      ops::Operands operands(memory_, DType::kF64, context_);
      std::vector<Tensor> tensors;
      for (const auto& saved : saved_tensors) {
        tensors.push_back(operands.output(saved.dtype, saved.shape));
      }
      const auto block_of = [&](Tensors streams) {
        EXPECT_EQ(streams.size(), 1U);
        return saved_tensors[static_cast<std::size_t>(streams.data() - tensors.data())];
      };
      const SavedTensor input = block_of(chunk.input_streams(tensors));
      const SavedTensor output = block_of(chunk.output_streams(tensors));
      const SavedTensor input_gradient = block_of(chunk.input_gradients(tensors));
      const SavedTensor output_gradient = block_of(chunk.output_gradients(tensors));
      EXPECT_EQ(input.shape, Shape({4, 2, 6}));
      EXPECT_EQ(output.shape, Shape({4, 2, 6}));
      EXPECT_EQ(point(input.born), Point(PassKind::kForward, -1));
      EXPECT_EQ(point(output.born), Point(PassKind::kForward, 1));
      EXPECT_EQ(point(output.last), Point(PassKind::kForward, 2));
      const bool held = !forward_only && recompute.input_shards == 1;
      EXPECT_EQ(input.last.pass == PassKind::kForward, !held);
      EXPECT_EQ(input.last.unit, 0);
      int outside = 0;
      for (const SavedTensor& saved : saved_tensors) {
        outside += saved.born.unit == -1 || saved.born.unit == 2;
        outside += saved.last.unit == -1 || saved.last.unit == 2;
      }
      if (forward_only) {
        EXPECT_EQ(outside, 2);
        EXPECT_EQ(input_gradient.bytes(), 0);
        EXPECT_EQ(output_gradient.bytes(), 0);
        continue;
      }
      EXPECT_EQ(outside, 4);
      EXPECT_EQ(point(output_gradient.born), Point(PassKind::kBackwardInput, 2));
      EXPECT_EQ(point(output_gradient.last), Point(PassKind::kBackwardInput, 1));
      EXPECT_EQ(point(input_gradient.born), Point(PassKind::kBackwardInput, 0));
      EXPECT_EQ(point(input_gradient.last), Point(PassKind::kBackwardInput, -1));
    }
  }
}

// The whole model exchanges nothing: none of its tensors lives outside the units.
TEST_F(Chunks, TheWholeModelHasNoEnds) {
  nn::ParamTable table;
  const Chunk chunk = build_gpt_chunk(test_gpt_config(true), {0, 2, true, true}, table);
  const auto saved_tensors =
      chunk.saved_tensors(nn::BatchShape{.sequence = 5, .micro_batch = 2}, false);
  for (const SavedTensor& saved : saved_tensors) {
    for (const PassPoint& point : {saved.born, saved.last}) {
      EXPECT_GE(point.unit, 0) << saved.name;
      EXPECT_LT(point.unit, chunk.num_units()) << saved.name;
    }
  }
  const std::vector<Tensor> tensors(saved_tensors.size());
  EXPECT_TRUE(chunk.input_streams(tensors).empty());
  EXPECT_TRUE(chunk.output_streams(tensors).empty());
  EXPECT_TRUE(chunk.input_gradients(tensors).empty());
  EXPECT_TRUE(chunk.output_gradients(tensors).empty());
}

}  // namespace
}  // namespace phalanx
