// Experts shared out among ranks: results are those of ranks that have all experts.

#include "phalanx/nn/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "phalanx/nn/expert_mlp.h"
#include "phalanx/nn/parallel_test_support.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx::nn {
namespace {

constexpr std::int64_t kTokens = 6;
constexpr std::int64_t kHidden = 4;
constexpr std::int64_t kExperts = 4;

struct Layout {
  int size = 1;
  int tensor = 1;
};

struct Setting {
  int ranks = 2;  // with tokens of their own; with the default layout each has all experts
  Layout layout = {};
  TokenDispatch dispatch = TokenDispatch::kAllToAll;
  double planned_imbalance = 2.0;
  double capacity_factor = 0.0;
  bool pad = false;
  bool bias = false;
  bool shared = false;
  bool skewed = false;  // all tokens choose experts 0 and 1
  bool recomputes = false;
  DType dtype = DType::kF64;
  std::function<std::unique_ptr<Backend>()> backend = make_ref_backend;
};

struct Result {
  std::vector<Values> outputs, input_gradients;  // by rank
  std::vector<std::int64_t> workspace;           // high-water mark in bytes, by rank
  std::map<std::string, Values> gradients;       // whole, summed over ranks
};

TransformerConfig config_of(const Setting& run, int rank) {
  TransformerConfig config = llama_config();
  config.hidden = kHidden;
  config.linear_bias = run.bias;
  config.dtype = run.dtype;
  config.expert_parallel = {.rank = rank / run.layout.tensor % run.layout.size,
                            .size = run.layout.size,
                            .tensor_rank = rank % run.layout.tensor,
                            .tensor_size = run.layout.tensor};
  config.experts.experts = kExperts;
  config.experts.chosen = 2;
  config.experts.ffn_hidden = 6;
  config.experts.capacity_factor = run.capacity_factor;
  config.experts.pad_to_capacity = run.pad;
  config.experts.dispatch = run.dispatch;
  config.experts.planned_imbalance = run.planned_imbalance;
  config.experts.shared_ffn_hidden = run.shared ? 4 : 0;
  return config;
}

double weight_at(const Setting& run, const std::string& name, std::int64_t index) {
  if (run.skewed && name.ends_with("router.weight")) {
    return -0.5 * static_cast<double>(index / kHidden) +
           0.01 * static_cast<double>(index % kHidden);
  }
  return 2.0 * noise_at(name, index);
}

// One rank's part of a run.
class RankRun {
 public:
  RankRun(const Setting& run, Communicator& world)
      : run_(run),
        rank_(world.rank()),
        machine_(run.dtype, run.backend()),
        config_(config_of(run, world.rank())) {
    all_.shape = {.sequence = kTokens, .micro_batch = 1};
    if (config_.expert_parallel.is_parallel()) {
      all_.expert_region = ExpertRegion(config_.expert_parallel, nullptr, nullptr, &world);
    }
    const ExpertMlp body(all_.table, all_.owned, all_.slots, "layer", config_);
    all_.allocate(machine_.operands, all_.slots.slots());
    for (ParamId id = 0; id < all_.table.size(); ++id) {
      const ParamSpec& spec = all_.table[id];
      for_each_place(spec, [&](std::int64_t global, std::int64_t local) {
        write_element(all_.parameters[static_cast<std::size_t>(id)], local,
                      weight_at(run_, spec.name, global));
      });
    }
    const Tensor x = rows("input"), dy = rows("output gradient");
    const Tensor y = machine_.operands.output(x.shape), dx = machine_.operands.output(x.shape);
    Pass pass = all_.pass(machine_.context);
    const Saved saved = all_.saved();
    BodyCall call{.pass = pass, .saved = saved, .exit_gradient = dy};
    body.forward(call, y, x);
    if (run.recomputes) {
      for (std::size_t i = 0; i < all_.saved_tensors.size(); ++i) {
        if (!all_.slots.slots()[i].is_kept) machine_.operands.poison(all_.saved_tensors[i]);
      }
      pass.recomputing = true;
      body.recompute(call, x);
      pass.recomputing = false;
    }
    body.backward_input(call, dx, body.backward_input_reads(pass) ? x : Tensor{});
    body.backward_weight(call, x, all_.gradients);
    output = values_of(y);
    input_gradient = values_of(dx);
    workspace = machine_.workspace.high_water();
  }

  void add_gradients(std::map<std::string, Values>& sums) const {
    for (ParamId id = 0; id < all_.table.size(); ++id) {
      const ParamSpec& spec = all_.table[id];
      const Values values = values_of(all_.gradient_tensors[static_cast<std::size_t>(id)]);
      Values& sum = sums[spec.name];
      sum.resize(static_cast<std::size_t>(spec.global_shape.count()));
      // Every expert-tensor rank has the whole gradient of fc2's bias.
      const bool is_copy =
          config_.expert_parallel.tensor_rank > 0 && spec.name.ends_with("linear_fc2.bias");
      if (is_copy) {
        EXPECT_EQ(values, sum) << spec.name << " on expert-tensor rank "
                               << config_.expert_parallel.tensor_rank;
        continue;
      }
      for_each_place(spec, [&](std::int64_t global, std::int64_t local) {
        sum[static_cast<std::size_t>(global)] += values[static_cast<std::size_t>(local)];
      });
    }
  }

  Values output, input_gradient;
  std::int64_t workspace = 0;

 private:
  Tensor rows(const std::string& name) {
    const Tensor tensor = machine_.operands.output({kTokens, 1, kHidden});
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const double value = noise_at(name, rank_ * tensor.count() + i);
      write_element(tensor, i, run_.skewed && name == "input" ? 1.0 + value : 2.0 * value);
    }
    return tensor;
  }

  const Setting& run_;
  int rank_;
  TestMachine machine_;
  TransformerConfig config_;
  LayerFixture all_;
};

Result result_of(const Setting& run) {
  std::vector<std::unique_ptr<RankRun>> ranks(static_cast<std::size_t>(run.ranks));
  run_local_ranks(run.ranks, {}, [&](Communicator& world) {
    ranks[static_cast<std::size_t>(world.rank())] = std::make_unique<RankRun>(run, world);
  });
  Result result;
  for (const auto& rank : ranks) {
    result.outputs.push_back(rank->output);
    result.input_gradients.push_back(rank->input_gradient);
    result.workspace.push_back(rank->workspace);
    rank->add_gradients(result.gradients);
  }
  return result;
}

// The same tokens where every rank has all experts.
Result whole_result(Setting run) {
  run.layout = {};
  run.recomputes = false;
  return result_of(run);
}

void expect_same_bits(const Result& actual, const Result& expected) {
  EXPECT_EQ(actual.outputs, expected.outputs);
  EXPECT_EQ(actual.input_gradients, expected.input_gradients);
}

void expect_near_gradients(const Result& actual, const Result& expected, double tolerance) {
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    expect_near(actual.gradients.at(name), gradient, tolerance, name);
  }
}

void expect_near_result(const Result& actual, const Result& expected, double tolerance) {
  for (std::size_t rank = 0; rank < expected.outputs.size(); ++rank) {
    expect_near(actual.outputs[rank], expected.outputs[rank], tolerance, "output");
    expect_near(actual.input_gradients[rank], expected.input_gradients[rank], tolerance, "dx");
  }
  expect_near_gradients(actual, expected, tolerance);
}

Setting shared_out(Layout layout) {
  return {.ranks = layout.size * layout.tensor, .layout = layout};
}

constexpr double kRounding = 1e-12;

TEST(Dispatch, AllToAllHasTheBitsOfWholeExperts) {
  for (const int size : {2, 4}) {
    for (const bool bias : {false, true}) {
      for (const bool recomputes : {false, true}) {
        Setting run = shared_out({.size = size});
        run.bias = bias;
        run.shared = !bias;
        run.recomputes = recomputes;
        const Result expected = whole_result(run);
        const Result actual = result_of(run);
        expect_same_bits(actual, expected);
        expect_near_gradients(actual, expected, kRounding);
      }
    }
  }
}

TEST(Dispatch, OfTheCpuHasTheBitsOfWholeExperts) {
  Setting run = shared_out({.size = 2});
  run.dtype = DType::kF32;
  run.backend = [] { return make_cpu_backend(1, cpu::ProductPrecision::kFp32); };
  const Result expected = whole_result(run);
  const Result actual = result_of(run);
  expect_same_bits(actual, expected);
  expect_near_gradients(actual, expected, 1e-5);
}

TEST(Dispatch, ExpertsMayBeCut) {
  for (const TokenDispatch dispatch : {TokenDispatch::kAllToAll, TokenDispatch::kAllGather}) {
    for (const Layout layout : {Layout{.size = 1, .tensor = 2}, Layout{.size = 2, .tensor = 2}}) {
      for (const bool bias : {false, true}) {
        Setting run = shared_out(layout);
        run.dispatch = dispatch;
        run.bias = bias;
        expect_near_result(result_of(run), whole_result(run), kRounding);
      }
    }
  }
}

TEST(Dispatch, AllGatherIsNearWholeExperts) {
  for (const int size : {2, 4}) {
    for (const bool recomputes : {false, true}) {
      Setting run = shared_out({.size = size});
      run.dispatch = TokenDispatch::kAllGather;
      run.recomputes = recomputes;
      expect_near_result(result_of(run), whole_result(run), kRounding);
    }
  }
}

// One rank has all rows and the others none. They take part in all messages.
TEST(Dispatch, RanksMayHaveNoRows) {
  for (const TokenDispatch dispatch : {TokenDispatch::kAllToAll, TokenDispatch::kAllGather}) {
    for (const Layout layout : {Layout{.size = 2}, Layout{.size = 4}, Layout{2, 2}}) {
      Setting run = shared_out(layout);
      run.dispatch = dispatch;
      run.skewed = true;
      const Result actual = result_of(run);
      expect_near_result(actual, whole_result(run), kRounding);
      for (const char* name :
           {"layer.mlp.experts.2.linear_fc1.weight", "layer.mlp.experts.3.linear_fc2.weight"}) {
        const Values& gradient = actual.gradients.at(name);
        EXPECT_EQ(gradient, Values(gradient.size(), 0.0)) << name;
      }
    }
  }
}

// All 24 rows are on rank 0, which computes 9 at a time.
TEST(Dispatch, RoundsHaveTheBitsOfOneRound) {
  for (const bool recomputes : {false, true}) {
    for (const bool bias : {false, true}) {
      Setting run = shared_out({.size = 2});
      run.skewed = true;
      run.bias = bias;
      run.recomputes = recomputes;
      const RowSizes sizes = row_sizes(config_of(run, 0).experts, {.size = 2}, kTokens);
      ASSERT_EQ(sizes.most, 24);
      ASSERT_EQ(sizes.most_rounds(), 1);
      const Result one = result_of(run);
      run.planned_imbalance = 0.75;
      ASSERT_EQ(row_sizes(config_of(run, 0).experts, {.size = 2}, kTokens).most_rounds(), 3);
      const Result three = result_of(run);
      expect_same_bits(three, one);
      expect_near_gradients(three, one, kRounding);
      expect_same_bits(three, whole_result(run));
    }
  }
}

TEST(Dispatch, RoundsOfCutExperts) {
  Setting run = shared_out({.size = 2, .tensor = 2});
  run.skewed = true;
  run.bias = true;
  const Result one = result_of(run);
  run.planned_imbalance = 0.7;
  const Result three = result_of(run);
  expect_same_bits(three, one);
  expect_near_result(three, whole_result(run), kRounding);
}

// Memory is what a plan says, however many rounds there are.
TEST(Dispatch, MemoryDoesNotDependOnTheNumberOfRounds) {
  Setting run = shared_out({.size = 2});
  run.planned_imbalance = 0.75;
  const Result balanced = result_of(run);
  run.skewed = true;
  EXPECT_EQ(result_of(run).workspace, balanced.workspace);
  EXPECT_EQ(balanced.workspace[0], balanced.workspace[1]);
}

TEST(Dispatch, ExpertsMayBePaddedToTheirCapacity) {
  for (const TokenDispatch dispatch : {TokenDispatch::kAllToAll, TokenDispatch::kAllGather}) {
    for (const Layout layout : {Layout{.size = 2}, Layout{.size = 4}, Layout{2, 2}}) {
      for (const double factor : {0.5, 1.25, 9.0}) {
        Setting run = shared_out(layout);
        run.dispatch = dispatch;
        run.capacity_factor = factor;
        run.bias = true;
        const Result expected = whole_result(run);
        expect_near_result(result_of(run), expected, kRounding);
        run.pad = true;
        run.recomputes = true;
        expect_near_result(result_of(run), expected, kRounding);
        expect_near_result(whole_result(run), expected, kRounding);
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::nn
