// Activation recomputation: the same bits from fewer saved tensors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/model/test_support.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {
namespace {

using nn::PassKind;
using Method = RecomputePlan::Method;
using Values = std::vector<double>;

constexpr std::int64_t kLayers = 4;
constexpr RecomputePlan kNothing{};
constexpr RecomputePlan kPlans[] = {
    {.method = Method::kUniform, .num_layers = 1}, {.method = Method::kUniform, .num_layers = 2},
    {.method = Method::kUniform, .num_layers = 3}, {.method = Method::kUniform, .num_layers = 9},
    {.method = Method::kBlock, .num_layers = 1},   {.method = Method::kBlock, .num_layers = 2},
    {.method = Method::kBlock, .num_layers = 9}};

std::string describe(const RecomputePlan& plan) {
  return fmt::format("{} {}, input in {} parts",
                     plan.method == Method::kUniform ? "uniform" : "block", plan.num_layers,
                     plan.input_shards);
}

GptConfig config_with(const RecomputePlan& plan) {
  GptConfig config = test_gpt_config(true);
  config.transformer.num_layers = kLayers;
  config.recompute = plan;
  return config;
}

struct Outcome {
  Values loss;
  std::vector<Values> auxiliary;
  std::vector<Values> gradients;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Two microbatches, each in tensors that are garbage before and after their lives: what is read
// beyond the life that a tensor declares is NaN.
class Steps {
 public:
  Steps(const GptConfig& config, Communicator* group,
        std::unique_ptr<Backend> backend = make_ref_backend())
      : backend_(std::move(backend)),
        operands_(memory_, config.transformer.dtype, context_),
        gpt_(operands_, config, group),
        saved_tensors_(gpt_.chunk.saved_tensors(gpt_.all.shape, false)) {}

  Outcome run(bool split) {
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      for (const Tensor& tensor : gpt_.tensors) operands_.poison(tensor);
      nn::Pass pass = gpt_.all.pass(context_);
      gpt_.chunk.forward(pass, gpt_.tensors, gpt_.hooks, microbatch);
      poison_all_but_held();
      if (split) {
        gpt_.chunk.backward_input(pass, gpt_.tensors, gpt_.hooks, microbatch);
        poison_last_read_in(PassKind::kBackwardInput);
        gpt_.chunk.backward_weight(pass, gpt_.tensors, gpt_.all.gradients, gpt_.hooks, microbatch);
      } else {
        gpt_.chunk.backward(pass, gpt_.tensors, gpt_.all.gradients, gpt_.hooks, microbatch);
      }
    }
    gpt_.all.join(context_);
    Outcome outcome{.loss = nn::values_of(gpt_.all.losses.sum), .auxiliary = {}, .gradients = {}};
    for (const nn::AuxiliaryTerm& term : gpt_.all.auxiliary) {
      outcome.auxiliary.push_back(nn::values_of(term.sum));
    }
    for (const Tensor& gradient : gpt_.all.gradient_tensors) {
      outcome.gradients.push_back(nn::values_of(gradient));
    }
    return outcome;
  }

 private:
  void poison_all_but_held() {
    for (std::size_t i = 0; i < saved_tensors_.size(); ++i) {
      const bool held = saved_tensors_[i].born.pass == PassKind::kForward &&
                        saved_tensors_[i].last.pass != PassKind::kForward;
      if (!held) operands_.poison(gpt_.tensors[i]);
    }
  }
  void poison_last_read_in(PassKind pass) {
    for (std::size_t i = 0; i < saved_tensors_.size(); ++i) {
      if (saved_tensors_[i].last.pass == pass) operands_.poison(gpt_.tensors[i]);
    }
  }

  std::unique_ptr<Backend> backend_;
  Arena memory_{"operands", 16 << 20};
  Arena workspace_{"workspace", 4 << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
  ops::Operands operands_;
  GptFixture gpt_;
  std::vector<SavedTensor> saved_tensors_;
};

Outcome outcome_of(const RecomputePlan& plan, bool split) {
  return Steps(config_with(plan), nullptr).run(split);
}

TEST(Recomputation, GivesTheSameBits) {
  for (const bool split : {false, true}) {
    const Outcome expected = outcome_of(kNothing, split);
    EXPECT_TRUE(std::isfinite(expected.loss[0]));
    for (const RecomputePlan& plan : kPlans) {
      EXPECT_EQ(outcome_of(plan, split), expected) << describe(plan) << ", split " << split;
    }
  }
}

// A router chooses once, and its losses are counted once.
TEST(Recomputation, KeepsTheChoiceOfExperts) {
  for (const bool split : {false, true}) {
    GptConfig config = test_expert_config();
    const Outcome expected = Steps(config, nullptr).run(split);
    ASSERT_EQ(expected.auxiliary.size(), 3U);
    for (const Values& loss : expected.auxiliary) EXPECT_GT(loss[0], 0.0);
    for (const RecomputePlan& plan : kPlans) {
      config.recompute = plan;
      EXPECT_EQ(Steps(config, nullptr).run(split), expected) << describe(plan);
    }
  }
}

TEST(Recomputation, GivesTheSameBitsOnTheCpu) {
  const auto outcome = [](const RecomputePlan& plan, DType dtype, bool fp32_residual) {
    GptConfig config = config_with(plan);
    config.transformer.dtype = dtype;
    config.transformer.fp32_residual = fp32_residual;
    return Steps(config, nullptr, make_cpu_backend(1, cpu::ProductPrecision::kFp32)).run(false);
  };
  for (const auto& [dtype, fp32_residual] :
       {std::pair{DType::kF32, false}, {DType::kBF16, false}, {DType::kBF16, true}}) {
    const Outcome expected = outcome(kNothing, dtype, fp32_residual);
    EXPECT_TRUE(std::isfinite(expected.loss[0]));
    for (const RecomputePlan& plan : kPlans) {
      EXPECT_EQ(outcome(plan, dtype, fp32_residual), expected) << describe(plan);
    }
  }
}

// On two tensor-parallel ranks; also where each keeps half of every group's input.
TEST(Recomputation, GivesTheSameBitsOnTwoRanks) {
  run_local_ranks(2, {}, [](Communicator& world) {
    const auto outcome = [&](const RecomputePlan& plan, bool sequence, bool split) {
      GptConfig config = config_with(plan);
      config.transformer.tensor = {.rank = world.rank(), .size = 2, .sequence = sequence};
      return Steps(config, &world).run(split);
    };
    for (const bool split : {false, true}) {
      for (const bool sequence : {false, true}) {
        const Outcome expected = outcome(kNothing, sequence, split);
        EXPECT_TRUE(std::isfinite(expected.loss[0]));
        for (RecomputePlan plan : kPlans) {
          EXPECT_EQ(outcome(plan, sequence, split), expected) << describe(plan);
          if (sequence) continue;
          plan.input_shards = 2;
          EXPECT_EQ(outcome(plan, sequence, split), expected) << describe(plan);
        }
      }
    }
  });
}

// The tensors that wait between the forward and the backward pass: names and bytes, sorted.
using Held = std::vector<std::pair<std::string, std::int64_t>>;
constexpr nn::BatchShape kShape{.sequence = 6, .micro_batch = 2};

std::vector<SavedTensor> saved_tensors_of(const RecomputePlan& plan, bool forward_only) {
  nn::ParamTable table;
  return build_gpt_chunk(config_with(plan), {0, kLayers, true, true}, table)
      .saved_tensors(kShape, forward_only);
}

Held held_by(const RecomputePlan& plan) {
  Held held;
  for (const SavedTensor& saved : saved_tensors_of(plan, false)) {
    if (saved.born.pass != PassKind::kForward || saved.last.pass == PassKind::kForward) continue;
    if (saved.bytes() > 0) held.emplace_back(saved.name, saved.bytes());
  }
  std::ranges::sort(held);
  return held;
}

// What remains of `all` with recomputation of the layers 0 ... recomputed - 1: everything of other
// units, and the inputs of the groups.
Held expected_of(Held all, std::int64_t recomputed, std::int64_t groups, int input_shards) {
  for (std::int64_t layer = 0; layer < recomputed; ++layer) {
    std::erase_if(all, [&](const auto& tensor) {
      return tensor.first.starts_with(fmt::format("layer {}: ", layer));
    });
    all.erase(std::ranges::find(all, std::string("hidden states"), &Held::value_type::first));
  }
  const std::int64_t bytes = kShape.rows() * 6 * size_of(DType::kF64);
  for (std::int64_t group = 0; group < groups; ++group) {
    all.emplace_back(input_shards > 1 ? "hidden states (share)" : "hidden states",
                     bytes / input_shards);
  }
  std::ranges::sort(all);
  return all;
}

TEST(Recomputation, HoldsTheInputsOfGroups) {
  const Held all = held_by(kNothing);
  // Every layer's input and the head's.
  EXPECT_EQ(std::ranges::count(all, std::string("hidden states"), &Held::value_type::first),
            kLayers + 1);
  for (RecomputePlan plan : kPlans) {
    for (const int shards : {1, 2}) {
      plan.input_shards = shards;
      const bool uniform = plan.method == Method::kUniform;
      const std::int64_t recomputed = uniform ? kLayers : std::min(kLayers, plan.num_layers);
      const std::int64_t groups =
          uniform ? (kLayers + plan.num_layers - 1) / plan.num_layers : recomputed;
      EXPECT_EQ(held_by(plan), expected_of(all, recomputed, groups, shards)) << describe(plan);
    }
  }
}

// Evaluation recomputes nothing.
TEST(Recomputation, LeavesForwardOnlyBlocksAsTheyAre) {
  const auto lives = [](const RecomputePlan& plan) {
    std::string text;
    for (const SavedTensor& saved : saved_tensors_of(plan, true)) {
      if (saved.bytes() == 0) continue;
      EXPECT_EQ(saved.born.pass, PassKind::kForward) << saved.name;
      EXPECT_EQ(saved.last.pass, PassKind::kForward) << saved.name;
      text += fmt::format("{} {} units {} to {}\n", saved.name, saved.bytes(), saved.born.unit,
                          saved.last.unit);
    }
    return text;
  };
  const std::string expected = lives(kNothing);
  EXPECT_NE(expected.find("layer 3: qkv"), std::string::npos);
  for (const RecomputePlan& plan : kPlans) EXPECT_EQ(lives(plan), expected) << describe(plan);
}

TEST(Recomputation, EvaluationGivesTheSameLoss) {
  const auto loss = [](const RecomputePlan& plan) {
    nn::TestMachine machine;
    Context& context = machine.context;
    ops::Operands& operands = machine.operands;
    GptFixture gpt(operands, config_with(plan));
    std::vector<Tensor> tensors;
    for (const SavedTensor& saved : gpt.chunk.saved_tensors(gpt.all.shape, true)) {
      tensors.push_back(operands.output(saved.dtype, saved.shape));
    }
    nn::Pass pass = gpt.all.pass(context);
    pass.training = false;
    gpt.chunk.forward(pass, tensors, gpt.hooks, 0);
    return nn::values_of(gpt.all.losses.sum)[0];
  };
  const double expected = loss(kNothing);
  EXPECT_TRUE(std::isfinite(expected));
  for (const RecomputePlan& plan : kPlans) EXPECT_EQ(loss(plan), expected) << describe(plan);
}

// A chunk with only layers, as of a stage in the middle: its first group begins at the chunk's
// input.
TEST(Recomputation, OfAChunkWithoutEmbeddingAndHead) {
  nn::ParamTable table;
  const RecomputePlan plan{.method = Method::kUniform, .num_layers = 2};
  const auto saved_tensors =
      build_gpt_chunk(config_with(plan), {0, 3, false, false}, table).saved_tensors(kShape, false);
  Held held;
  for (const SavedTensor& saved : saved_tensors) {
    if (saved.born.pass != PassKind::kForward || saved.last.pass == PassKind::kForward) continue;
    if (saved.bytes() > 0) held.emplace_back(saved.name, saved.last.unit);
  }
  EXPECT_EQ(held, (Held{{"hidden states", 0}, {"hidden states", 2}}));
}

}  // namespace
}  // namespace phalanx
