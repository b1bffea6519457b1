// Losses, gradients and AdamW steps of tiny GPTs against PyTorch's (make_tiny_gpt.py), on the
// reference in double and on the CPU in fp32, with both attention kernels.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "formula.h"
#include "phalanx/model/gpt.h"
#include "phalanx/optim/parameter_schedule.h"
#include "tests/paths.h"
#include "tiny_training.h"

namespace phalanx {
namespace {

using nlohmann::json;

// noise() of make_tiny_gpt.py.
double noise(std::uint64_t stream, std::uint64_t index) {
  auto v = static_cast<std::uint32_t>(index * 2654435761U + stream * 40503U + 12345U);
  v = (v ^ (v >> 16)) * 2246822519U;
  v = (v ^ (v >> 13)) * 3266489917U;
  return static_cast<double>((v ^ (v >> 16)) >> 12) / 1048576.0 - 0.5;
}

const json& golden() {
  static const json document =
      json::parse(std::ifstream(source_path("tests/golden/tiny_gpt.json")));
  return document;
}

using Machine = GoldenMachine;

GptModel model_of(const json& document, const json& variant, const Machine& machine) {
  const nn::TransformerConfig transformer{.num_layers = document.at("layers"),
                                          .hidden = document.at("hidden"),
                                          .ffn_hidden = document.at("ffn_hidden"),
                                          .heads = document.at("heads"),
                                          .query_groups = variant.at("query_groups"),
                                          .head_size = document.at("head_size"),
                                          .activation = variant.at("gelu") == "erf"
                                                            ? ops::ActivationKind::kGeluErf
                                                            : ops::ActivationKind::kGeluTanh,
                                          .attention = machine.attention,
                                          .mask_documents = variant.at("mask_documents"),
                                          .dtype = machine.dtype,
                                          .tensor = {},
                                          .init_key = {},
                                          .dropout_key = {}};
  return {{.transformer = transformer,
           .vocabulary = document.at("vocabulary"),
           .padded_vocabulary = document.at("padded_vocabulary"),
           .max_positions = document.at("max_positions"),
           .tied_embedding = variant.at("tied"),
           .recompute = {}},
          document.at("sequence")};
}

TinyRun run_of(const json& document, const Model& model) {
  const json& adam = document.at("adam");
  return {.model = model,
          .micro_batch = document.at("micro_batch"),
          .microbatches = document.at("microbatches"),
          .optimizer = {.rule = AdamRule{.beta1 = adam.at("beta1"),
                                         .beta2 = adam.at("beta2"),
                                         .epsilon = adam.at("epsilon")},
                        .clip_grad = adam.at("clip_grad")}};
}

std::vector<TinyBatch> batches_of(const json& step) {
  std::vector<TinyBatch> batches;
  for (const json& batch : step.at("batches")) {
    batches.push_back({{"tokens", sequence_first(batch.at("tokens"))},
                       {"labels", sequence_first(batch.at("labels"))},
                       {"position_ids", sequence_first(batch.at("positions"))},
                       {"document", sequence_first(batch.at("documents"))},
                       {"loss_mask", sequence_first(batch.at("loss_mask"))}});
  }
  return batches;
}

// `values` are within `bound` of what the norm and the projections say.
void expect_named_summary(const std::vector<double>& values, const json& expected, double bound) {
  EXPECT_NEAR(norm_of(values), expected.at("norm").get<double>(), bound);
  for (std::uint64_t k = 0; k < 2; ++k) {
    double dot = 0.0;
    double direction = 0.0;
    for (std::size_t e = 0; e < values.size(); ++e) {
      const double n = noise(1000 + k, e);
      dot += values[e] * n;
      direction += n * n;
    }
    EXPECT_NEAR(dot, expected.at("dots").at(k).get<double>(), bound * std::sqrt(direction));
  }
}

class TinyGpt : public testing::TestWithParam<Machine> {
 protected:
  // Parameters as make_tiny_gpt.py starts them.
  static std::vector<std::vector<double>> set_parameters(TinyTraining& training) {
    std::vector<std::vector<double>> start;
    for (ParamId id = 0; id < training.table().size(); ++id) {
      const ParamSpec& spec = training.table()[id];
      const double centre = spec.name.ends_with("norm.weight") ? 1.0 : 0.0;
      std::vector<double> values;
      for (std::int64_t e = 0; e < true_count(spec); ++e) {
        values.push_back(
            centre + 0.5 * noise(static_cast<std::uint64_t>(id), static_cast<std::uint64_t>(e)));
      }
      training.set_parameter(id, values);
      start.push_back(std::move(values));
    }
    return start;
  }

  static void compare_gradients(const TinyTraining& training, const json& step, double tolerance) {
    const double all = step.at("grad_norm");
    for (ParamId id = 0; id < training.table().size(); ++id) {
      const std::string& name = training.table()[id].name;
      SCOPED_TRACE(name);
      const json& expected = step.at("gradients").at(name);
      const double scale = std::max(expected.at("norm").get<double>(), 1e-3 * all);
      const auto gradient = training.gradient(id);
      expect_named_summary(gradient, expected, tolerance * scale);
      if (!step.contains("full_gradients")) continue;
      const auto full = step.at("full_gradients").at(name).get<std::vector<double>>();
      ASSERT_EQ(gradient.size(), full.size());
      std::vector<double> difference;
      for (std::size_t e = 0; e < full.size(); ++e) difference.push_back(gradient[e] - full[e]);
      EXPECT_LE(norm_of(difference) / scale, tolerance);
    }
  }

  static void compare_weights(const TinyTraining& training, const json& step, double tolerance,
                              const std::vector<std::vector<double>>& start, bool exact) {
    for (ParamId id = 0; id < training.table().size(); ++id) {
      const std::string& name = training.table()[id].name;
      // The true gradient of its key rows is zero: Adam makes steps of rounding errors.
      if (!exact && name.ends_with("linear_qkv.bias")) continue;
      SCOPED_TRACE(name);
      const auto weights = training.parameter(id);
      std::vector<double> moved = weights;
      for (std::size_t e = 0; e < moved.size(); ++e) {
        moved[e] -= start[static_cast<std::size_t>(id)][e];
      }
      EXPECT_GT(norm_of(moved), 0.0);
      expect_named_summary(weights, step.at("weights").at(name), tolerance * norm_of(moved));
    }
  }
};

TEST_P(TinyGpt, MatchesPyTorch) {
  const Machine& machine = GetParam();
  const GoldenTolerance& tolerance = machine.tolerance;
  const json& document = golden();
  const json& rates = document.at("lr");
  const ParameterSchedule schedule{.max_lr = rates.at("max_lr"),
                                   .warmup_init_lr = rates.at("warmup_init_lr"),
                                   .warmup_samples = rates.at("warmup_samples"),
                                   .decay_samples = 1000};
  for (const json& variant : document.at("variants")) {
    SCOPED_TRACE(variant.at("name").get<std::string>());
    const auto backend = machine.backend();
    const GptModel model = model_of(document, variant, machine);
    const TinyRun run = run_of(document, model);
    TinyTraining training(run, *backend);
    training.initialise();
    const auto start = set_parameters(training);
    std::int64_t number = 0;
    for (const json& step : variant.at("steps")) {
      SCOPED_TRACE(fmt::format("step {}", number + 1));
      const double lr = schedule.learning_rate(number * run.microbatches * run.micro_batch);
      EXPECT_DOUBLE_EQ(lr, step.at("lr").get<double>());
      const auto losses = training.step(
          {.lr = lr, .weight_decay = document.at("adam").at("weight_decay"), .adam_step = ++number},
          batches_of(step));
      const double expected = step.at("loss");
      EXPECT_NEAR(losses.at(0).mean() / expected, 1.0, tolerance.loss);
      EXPECT_NEAR(training.grad_norm() / step.at("grad_norm").get<double>(), 1.0,
                  number == 1 ? tolerance.gradient : tolerance.later);
      compare_gradients(training, step, number == 1 ? tolerance.gradient : tolerance.later);
      compare_weights(training, step, tolerance.weight, start, machine.dtype == DType::kF64);
      for (const double value : training.padding(0)) EXPECT_EQ(value, 0.0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, TinyGpt, testing::ValuesIn(golden_machines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace phalanx
