// A layer's experts: a worked example, equal experts against a dense MLP, gradients against finite
// differences, and rows on several ranks.

#include "phalanx/nn/expert_mlp.h"

#include <gtest/gtest.h>

#include <cmath>

#include "phalanx/nn/parallel_test_support.h"
#include "phalanx/nn/transformer_layer.h"
#include "phalanx/ops/cases/differentiate.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx::nn {
namespace {

using Kind = RouterLoss::Kind;

// sin(scale (row + 1) (column + 2) + phase), times a factor.
struct Sines {
  double scale = 1.0;
  double phase = 0.0;
  double factor = 1.0;
};
void set_sines(const Tensor& tensor, const Sines& sines) {
  const std::int64_t columns = matrix_columns(tensor.shape);
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const auto place = static_cast<double>((i / columns + 1) * (i % columns + 2));
    write_element(tensor, i, sines.factor * std::sin(sines.scale * place + sines.phase));
  }
}

// Four features, experts of three; expert 3 gets no token.
class Example {
 public:
  struct Options {
    bool bias = false;
    bool shared = false;
    bool gate = false;
  };

  explicit Example(const Options& options) : config_(config_of(options)) {
    all_.shape = {.sequence = 6, .micro_batch = 1};
    body_.emplace(all_.table, all_.owned, all_.slots, "layer", config_);
    all_.allocate(machine_.operands, all_.slots.slots());
    for (ParamId id = 0; id < all_.table.size(); ++id) {
      set_sines(all_.parameters[static_cast<std::size_t>(id)], sines_of(all_.table[id].name));
    }
    x_ = rows();
    dy_ = rows();
    set_sines(x_, {.scale = 0.21});
    for (std::int64_t i = 0; i < dy_.count(); ++i) {
      write_element(dy_, i,
                    std::cos(0.4 * static_cast<double>(i / 4) + 0.2 * static_cast<double>(i % 4)));
    }
    y_ = rows();
    dx_ = rows();
    Pass pass = all_.pass(machine_.context);
    const Saved saved = all_.saved();
    BodyCall call{.pass = pass, .saved = saved, .exit_gradient = dy_};
    body_->forward(call, y_, x_);
    body_->backward_input(call, dx_, x_);
    body_->backward_weight(call, x_, all_.gradients);
  }

  Values y() const { return values_of(y_); }
  Values dx() const { return values_of(dx_); }
  double gradient_norm(const std::string& name) const {
    for (ParamId id = 0; id < all_.table.size(); ++id) {
      if (all_.table[id].name != "layer.mlp." + name) continue;
      return norm(values_of(all_.gradient_tensors[static_cast<std::size_t>(id)]));
    }
    ADD_FAILURE() << name;
    return 0.0;
  }
  static double norm(const Values& values) {
    double sum = 0.0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum);
  }

 private:
  static TransformerConfig config_of(const Options& options) {
    TransformerConfig config = llama_config();
    config.hidden = 4;
    config.linear_bias = options.bias;
    config.experts = {.experts = 4,
                      .chosen = 2,
                      .ffn_hidden = 3,
                      .losses = {},
                      .shared_ffn_hidden = options.shared ? 3 : 0,
                      .shared_gate = options.gate};
    return config;
  }
  static Sines sines_of(const std::string& name) {
    if (name == "layer.mlp.router.weight") return {.scale = 0.5, .factor = 3.0};
    if (name.ends_with("gate_weight")) return {.scale = 0.35};
    if (name.find("shared") != std::string::npos) {
      return name.find("fc1") != std::string::npos ? Sines{.scale = 0.15, .phase = 0.2}
                                                   : Sines{.scale = 0.25, .phase = 0.1};
    }
    const double e = name[std::string("layer.mlp.experts.").size()] - '0' + 1;
    const bool first = name.find("fc1") != std::string::npos;
    if (name.ends_with("bias")) return {.scale = (first ? 0.3 : 0.4) * e, .factor = 0.1};
    return {.scale = (first ? 0.1 : 0.2) * e, .phase = first ? 0.3 : 0.7};
  }
  Tensor rows() { return machine_.operands.output({6, 1, 4}); }

  TestMachine machine_;
  TransformerConfig config_;
  LayerFixture all_;
  std::optional<ExpertMlp> body_;
  Tensor x_, y_, dx_, dy_;
};

void expect_row(const Values& actual, const Values& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 5e-8 * std::abs(expected[i])) << i;
  }
}

// Numbers of an independent implementation.
TEST(ExpertMlp, ComputesTheExample) {
  const Example plain({});
  expect_row(plain.y(), {8.75261294, 8.40312044, 5.24208253, 0.78742908});
  expect_row(plain.dx(), {19.8589656, 21.8090286, 20.4301511, 16.5960411});
  EXPECT_NEAR(Example::norm(plain.y()), 33.86549283, 1e-7);
  EXPECT_NEAR(Example::norm(plain.dx()), 66.80632108, 1e-7);
  EXPECT_NEAR(plain.gradient_norm("router.weight"), 0.2278197972, 1e-9);
  EXPECT_NEAR(plain.gradient_norm("experts.0.linear_fc1.weight"), 49.662614, 1e-6);
  EXPECT_NEAR(plain.gradient_norm("experts.1.linear_fc1.weight"), 1.7442869, 1e-7);
  EXPECT_NEAR(plain.gradient_norm("experts.2.linear_fc2.weight"), 0.40396858, 1e-8);
  EXPECT_EQ(plain.gradient_norm("experts.3.linear_fc1.weight"), 0.0);
  EXPECT_EQ(plain.gradient_norm("experts.3.linear_fc2.weight"), 0.0);
}

TEST(ExpertMlp, ComputesTheExampleWithBiases) {
  const Example biases({.bias = true});
  expect_row(biases.y(), {9.73361284, 9.35014438, 5.83478309, 0.88466732});
  EXPECT_NEAR(Example::norm(biases.dx()), 69.57683697, 1e-7);
  EXPECT_NEAR(biases.gradient_norm("router.weight"), 0.2242993059, 1e-9);
  EXPECT_NEAR(biases.gradient_norm("experts.0.linear_fc1.bias"), 34.364365, 1e-6);
  EXPECT_NEAR(biases.gradient_norm("experts.1.linear_fc2.bias"), 1.7026889, 1e-7);
  EXPECT_EQ(biases.gradient_norm("experts.3.linear_fc2.bias"), 0.0);
}

TEST(ExpertMlp, ComputesTheExampleWithASharedExpert) {
  expect_row(Example({.shared = true}).y(), {8.61815994, 9.01063744, 7.29887654, 3.78433454});
  const Example gated({.shared = true, .gate = true});
  expect_row(gated.y(), {8.62974848, 8.95827538, 7.12160089, 3.52603043});
  EXPECT_NEAR(Example::norm(gated.dx()), 93.06775085, 1e-7);
  EXPECT_NEAR(gated.gradient_norm("shared_experts.gate_weight"), 2.72410562, 1e-8);
}

TransformerConfig expert_config(bool gated, bool bias) {
  TransformerConfig config = test_config();
  config.activation = gated ? ops::ActivationKind::kSilu : ops::ActivationKind::kGeluTanh;
  config.gated = gated;
  config.linear_bias = bias;
  config.experts = {
      .experts = 5,
      .chosen = 2,
      .ffn_hidden = 7,
      .losses = {{Kind::kBalance, 0.5}, {Kind::kSequenceBalance, 0.25}, {Kind::kLogits, 0.125}}};
  return config;
}

// A layer, and the losses of its router as outputs beside its own.
ops::GradientCase layer_case(const std::string& description, const TransformerConfig& config) {
  return {"expert_layer", description, [config](ops::Operands& operands) {
            const auto all = std::make_shared<LayerFixture>();
            const auto layer = std::make_shared<TransformerLayer>(all->table, 1, 1, config);
            all->allocate(operands, layer->saved_slots());
            all->add_auxiliary(operands, config.experts.losses.size());
            ops::GradientJob job = unit_job(operands, all, layer);
            for (std::size_t i = 0; i < all->auxiliary.size(); ++i) {
              const AuxiliaryTerm& term = all->auxiliary[i];
              const double seed = 8.0 * config.experts.losses[i].coefficient * term.factor;
              job.outputs.push_back({term.sum, operands.filled(DType::kF64, {1}, seed)});
            }
            job.forward = [all, forward = job.forward](Context& context) {
              for (const AuxiliaryTerm& term : all->auxiliary) {
                ops::fill(context, {.x = term.sum, .value = 0.0});
              }
              forward(context);
            };
            return job;
          }};
}

TEST(ExpertMlp, GradientsMatchDifferences) {
  EXPECT_EQ(ops::compare_with_differences(layer_case("biases", expert_config(false, true))), "");
  TransformerConfig config = expert_config(true, false);
  config.experts.rule.score = ops::RouterScore::kSigmoid;
  config.experts.rule.scaling = 1.5;
  config.experts.bias = true;
  config.experts.shared_ffn_hidden = 6;
  config.experts.shared_gate = true;
  EXPECT_EQ(ops::compare_with_differences(layer_case("gated, shared", config)), "");
  config.experts.shared_gate = false;
  config.experts.capacity_factor = 0.75;
  config.experts.rule.score = ops::RouterScore::kSoftmaxFirst;
  config.experts.bias = false;
  config.experts.input_jitter = 0.25;
  EXPECT_EQ(ops::compare_with_differences(layer_case("gated, capacity, jitter", config)), "");
}

// With equal experts, whose probabilities add up to 1, the layer is the one with a dense MLP.
TEST(ExpertMlp, EqualExpertsAreADenseMlp) {
  for (const bool bias : {false, true}) {
    TransformerConfig config = expert_config(true, bias);
    config.experts.losses.clear();
    config.experts.ffn_hidden = config.ffn_hidden;
    const auto result = [](const TransformerConfig& of_layer) {
      TestMachine machine;
      LayerFixture all;
      const TransformerLayer layer(all.table, 1, 1, of_layer);
      all.allocate(machine.operands, layer.saved_slots());
      for (ParamId id = 0; id < all.table.size(); ++id) {
        std::string name = all.table[id].name;
        const std::size_t experts = name.find("experts.");
        if (experts != std::string::npos) name.erase(experts, std::string("experts.0.").size());
        const Tensor& tensor = all.parameters[static_cast<std::size_t>(id)];
        for (std::int64_t i = 0; i < tensor.count(); ++i) {
          write_element(tensor, i, noise_at(name, i));
        }
      }
      const std::vector<Tensor> in = {all.stream(machine.operands, 10)};
      const std::vector<Tensor> out = {all.empty_stream(machine.operands, 10)};
      const std::vector<Tensor> dout = {all.stream(machine.operands, 10)};
      const std::vector<Tensor> din = {all.empty_stream(machine.operands, 10)};
      for (const auto* tensors : {&in, &dout}) set_stream({}, tensors->front(), "stream");
      Pass pass = all.pass(machine.context);
      layer.forward(pass, in, out, all.saved());
      layer.backward(pass, in, dout, din, all.saved(), all.gradients);
      return std::pair(values_of(out[0]), values_of(din[0]));
    };
    TransformerConfig dense = config;
    dense.experts = {};
    const auto [out, din] = result(config);
    const auto [dense_out, dense_din] = result(dense);
    expect_near(out, dense_out, 1e-12, "output");
    expect_near(din, dense_din, 1e-11, "input gradient");
  }
}

// Each tensor-parallel rank gives experts the rows of its part of the sequence.
TEST(ExpertMlp, IsTheSameOnSeveralRanks) {
  const auto make = [](ParamTable& table, const TransformerConfig& config) {
    return std::make_unique<TransformerLayer>(table, 1, 1, config);
  };
  for (const bool gate : {false, true}) {
    UnitRun run{.make = make, .config = expert_config(true, false)};
    run.config.experts.losses.clear();
    run.config.experts.shared_ffn_hidden = 8;
    run.config.experts.shared_gate = gate;
    const UnitResult one = result_of(run);
    run.config.tensor.size = 2;
    run.config.tensor.sequence = true;
    for (const bool fused : {false, true}) {
      run.fused_backward = fused;
      expect_near(result_of(run), one, 1e-11);
    }
  }
}

// The CPU's results in storage types are near those of the reference.
TEST(ExpertMlp, OfTheCpuIsNearTheReference) {
  const auto make = [](ParamTable& table, const TransformerConfig& config) {
    return std::make_unique<TransformerLayer>(table, 1, 1, config);
  };
  UnitRun run{.make = make, .config = expert_config(true, false)};
  run.config.experts.losses.clear();
  run.config.experts.shared_ffn_hidden = 8;
  const UnitResult exact = result_of(run);
  run.config.dtype = DType::kF32;
  run.backend = [] { return make_cpu_backend(2, cpu::ProductPrecision::kFp32); };
  const UnitResult result = result_of(run);
  EXPECT_LT(relative_error(result.output, exact.output), 1e-5);
  EXPECT_LT(relative_error(result.input_gradient, exact.input_gradient), 1e-5);
  for (const auto& [name, gradient] : exact.gradients) {
    EXPECT_LT(relative_error(result.gradients.at(name), gradient), 1e-4) << name;
  }
}

}  // namespace
}  // namespace phalanx::nn
