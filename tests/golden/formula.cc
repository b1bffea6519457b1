#include "formula.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {
namespace {

using nlohmann::json;

constexpr std::uint32_t kSummaryStream = 1000;
// Summaries in the files are rounded to this.
constexpr double kDigits = 5e-12;

bool is_norm_weight(const std::string& name) {
  return name.ends_with("weight") && (name.find("layernorm") != std::string::npos ||
                                      name.find("layer_norm") != std::string::npos);
}

double unit(std::uint32_t index, std::uint32_t stream) {
  return static_cast<double>(formula_hash(index, stream)) / 4294967296.0;
}

std::unique_ptr<Backend> cpu_of_one_thread() {
  return make_cpu_backend(1, cpu::ProductPrecision::kFp32);
}

}  // namespace

std::uint32_t formula_hash(std::uint32_t index, std::uint32_t stream) {
  std::uint32_t x = index * 0x9E3779B1U + stream * 0x85EBCA77U;
  x = (x ^ (x >> 16)) * 0x7FEB352DU;
  x = (x ^ (x >> 15)) * 0x846CA68BU;
  return x ^ (x >> 16);
}

std::vector<ParamId> parameters_by_name(const nn::ParamTable& table) {
  std::vector<ParamId> ids;
  std::set<std::string> names;
  for (ParamId id = 0; id < table.size(); ++id) {
    if (names.insert(table[id].name).second) ids.push_back(id);
  }
  std::ranges::sort(ids, {}, [&](ParamId id) { return table[id].name; });
  return ids;
}

std::vector<std::string> names_of_parameters(const nn::ParamTable& table) {
  std::vector<std::string> names;
  for (const ParamId id : parameters_by_name(table)) names.push_back(table[id].name);
  return names;
}

std::vector<std::vector<double>> set_formula_parameters(TinyTraining& training, double scale) {
  const nn::ParamTable& table = training.table();
  std::vector<std::vector<double>> start(static_cast<std::size_t>(table.size()));
  std::uint32_t number = 0;
  for (const ParamId id : parameters_by_name(table)) {
    const double centre = is_norm_weight(table[id].name) ? 1.0 : 0.0;
    std::vector<double> values;
    for (std::int64_t i = 0; i < true_count(table[id]); ++i) {
      const double u = 2.0 * unit(static_cast<std::uint32_t>(i), number) - 1.0;
      values.push_back(static_cast<float>(scale * std::sqrt(3.0) * u + centre));
    }
    for (ParamId other = 0; other < table.size(); ++other) {
      if (table[other].name != table[id].name) continue;
      training.set_parameter(other, values);
      start[static_cast<std::size_t>(other)] = values;
    }
    ++number;
  }
  return start;
}

double norm_of(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

void expect_summary(const std::vector<double>& values, const json& expected, double bound) {
  double dot = 0.0;
  double direction = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double n = unit(static_cast<std::uint32_t>(i), kSummaryStream) - 0.5;
    dot += values[i] * n;
    direction += n * n;
  }
  EXPECT_NEAR(norm_of(values), expected.at(0).get<double>(), bound);
  EXPECT_NEAR(dot, expected.at(1).get<double>(), bound * std::sqrt(direction));
}

std::vector<GoldenMachine> golden_machines() {
  using enum nn::AttentionKernel;
  constexpr GoldenTolerance kDouble{
      .loss = 1e-12, .gradient = 1e-10, .later = 1e-10, .weight = 1e-10};
  constexpr GoldenTolerance kSingle{.loss = 1e-6, .gradient = 1e-5, .later = 1e-4, .weight = 1e-3};
  return {{"ref_fused", make_ref_backend, DType::kF64, kFused, kDouble},
          {"ref_unfused", make_ref_backend, DType::kF64, kUnfused, kDouble},
          {"cpu_fused", cpu_of_one_thread, DType::kF32, kFused, kSingle},
          {"cpu_unfused", cpu_of_one_thread, DType::kF32, kUnfused, kSingle}};
}

std::vector<double> sequence_first(const json& rows) {
  std::vector<double> values;
  for (std::size_t s = 0; s < rows.at(0).size(); ++s) {
    for (const json& row : rows) values.push_back(row.at(s));
  }
  return values;
}

nn::TransformerConfig golden_transformer(const json& size, const char* layers, const json& variant,
                                         const GoldenMachine& machine) {
  const std::int64_t hidden = size.at("hidden");
  const std::int64_t heads = size.at("heads");
  return {.num_layers = size.at(layers),
          .hidden = hidden,
          .ffn_hidden = size.at("ffn"),
          .heads = heads,
          .query_groups = heads,
          .head_size = hidden / heads,
          .activation = variant.at("mlp_gelu") == "erf" ? ops::ActivationKind::kGeluErf
                                                        : ops::ActivationKind::kGeluTanh,
          .attention = machine.attention,
          .dtype = machine.dtype,
          .tensor = {},
          .init_key = {},
          .dropout_key = {}};
}

AdamRule golden_adam(const json& document) {
  const json& adam = document.at("adam");
  return {.beta1 = adam.at("beta1"), .beta2 = adam.at("beta2"), .epsilon = adam.at("epsilon")};
}

FormulaStep::FormulaStep(const Model& model, double scale, const GoldenMachine& machine,
                         std::int64_t micro_batch, const std::vector<TinyBatch>& batches,
                         bool mean_of_means, const std::string& zeroed)
    : backend(machine.backend()),
      training({.model = model,
                .micro_batch = micro_batch,
                .microbatches = static_cast<int>(batches.size()),
                .mean_of_means = mean_of_means,
                .optimizer = {}},
               *backend) {
  training.initialise();
  set_formula_parameters(training, scale);
  for (ParamId id = 0; id < training.table().size(); ++id) {
    const auto count = static_cast<std::size_t>(true_count(training.table()[id]));
    if (training.table()[id].name != zeroed) continue;
    training.set_parameter(id, std::vector<double>(count, 0.0));
  }
  losses = training.step({.lr = 0.0, .weight_decay = 0.0, .adam_step = 1}, batches);
}

void expect_first_step(const FormulaStep& step, const Model& model, const json& expected,
                       const GoldenMachine& machine) {
  const auto losses = model.losses();
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(step.mean(i) / expected.at(losses[i].name).get<double>(), 1.0,
                machine.tolerance.loss)
        << losses[i].name;
  }
  const double norm = expected.at("grad_norm");
  EXPECT_NEAR(step.training.grad_norm() / norm, 1.0, machine.tolerance.gradient);
  expect_gradients(step.training, expected.at("gradients"), norm, machine.tolerance.gradient);
}

void expect_steps(const GoldenMachine& machine, const Model& model, const json& document,
                  const json& run, TinyBatch (*batch_of)(const json& columns)) {
  const json& adam = document.at("adam");
  const auto backend = machine.backend();
  TinyTraining training(
      {.model = model,
       .micro_batch = 1,
       .microbatches = 2,
       .optimizer = {.rule = golden_adam(document), .clip_grad = adam.at("clip_grad")}},
      *backend);
  training.initialise();
  const auto start = set_formula_parameters(training, document.at("size").at("scale"));
  std::int64_t number = 0;
  for (const json& step : run.at("steps")) {
    SCOPED_TRACE("step " + std::to_string(++number));
    std::vector<TinyBatch> batches;
    for (const json& columns : step.at("batches")) batches.push_back(batch_of(columns));
    const auto losses = training.step(
        {.lr = step.at("lr"), .weight_decay = adam.at("weight_decay"), .adam_step = number},
        batches);
    const double tolerance = number == 1 ? machine.tolerance.gradient : machine.tolerance.later;
    const auto specs = model.losses();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const double expected = step.at(specs[i].name);
      EXPECT_NEAR(losses[i].mean() / expected, 1.0,
                  number == 1 ? machine.tolerance.loss : tolerance)
          << specs[i].name;
    }
    const double norm = step.at("grad_norm");
    EXPECT_NEAR(training.grad_norm() / norm, 1.0, tolerance);
    expect_gradients(training, step.at("gradients"), norm, tolerance);
    expect_weights(training, step.at("weights"), start, machine);
  }
}

void expect_gradients(const TinyTraining& training, const json& expected, double grad_norm,
                      double tolerance) {
  const std::vector<ParamId> ids = parameters_by_name(training.table());
  ASSERT_EQ(ids.size(), expected.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    SCOPED_TRACE(training.table()[ids[i]].name);
    const double scale = std::max(expected.at(i).at(0).get<double>(), 1e-3 * grad_norm);
    expect_summary(training.gradient(ids[i]), expected.at(i), tolerance * scale);
  }
}

void expect_weights(const TinyTraining& training, const json& expected,
                    const std::vector<std::vector<double>>& start, const GoldenMachine& machine) {
  const std::vector<ParamId> ids = parameters_by_name(training.table());
  ASSERT_EQ(ids.size(), expected.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string& name = training.table()[ids[i]].name;
    SCOPED_TRACE(name);
    // The true gradient of keys' biases is zero: Adam makes steps of rounding errors.
    const bool has_keys = name.ends_with("linear_qkv.bias") || name.ends_with("linear_kv.bias");
    if (machine.dtype != DType::kF64 && has_keys) continue;
    const std::vector<double> weights = training.parameter(ids[i]);
    std::vector<double> moved = weights;
    for (std::size_t e = 0; e < moved.size(); ++e) {
      moved[e] -= start[static_cast<std::size_t>(ids[i])][e];
    }
    EXPECT_GT(norm_of(moved), 0.0);
    const double digits = kDigits * norm_of(weights);
    const double tolerance = (has_keys ? 10.0 : 1.0) * machine.tolerance.weight;
    expect_summary(weights, expected.at(i), tolerance * norm_of(moved) + digits);
  }
}

}  // namespace phalanx
