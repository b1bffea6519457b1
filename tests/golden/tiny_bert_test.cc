// Losses, gradients and AdamW steps of tiny BERTs against PyTorch's (make_tiny_bert.py), on the
// reference in double and on the CPU in fp32, with both attention kernels.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "formula.h"
#include "phalanx/model/bert.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using nlohmann::json;

const json& golden() {
  static const json document =
      json::parse(std::ifstream(source_path("tests/golden/tiny_bert.json")));
  return document;
}

BertModel model_of(const json& size, std::int64_t sequence, const json& variant,
                   const GoldenMachine& machine) {
  nn::TransformerConfig transformer = golden_transformer(size, "layers", variant, machine);
  transformer.stack = "encoder";
  transformer.causal = false;
  if (variant.at("norms") == "behind") transformer.norm_place = nn::NormPlace::kPost;
  return BertModel({.transformer = transformer,
                    .vocabulary = size.at("vocabulary"),
                    .padded_vocabulary = size.at("vocabulary"),
                    .max_positions = size.at("positions"),
                    .sequence = sequence,
                    .binary_head = variant.at("binary_head"),
                    .recompute = {}});
}

BertModel model_of(const json& variant, const GoldenMachine& machine) {
  return model_of(golden().at("size"), golden().at("sequence"), variant, machine);
}

TinyBatch batch_of(const json& columns) {
  TinyBatch batch{{"tokens", sequence_first(columns.at("tokens"))},
                  {"types", sequence_first(columns.at("types"))},
                  {"labels", sequence_first(columns.at("labels"))},
                  {"document", sequence_first(columns.at("documents"))},
                  {"is_random", columns.at("is_random")}};
  for (const double label : batch["labels"]) batch["loss_mask"].push_back(label < 0 ? 0.0 : 1.0);
  return batch;
}

double scale() { return golden().at("size").at("scale"); }

class TinyBert : public testing::TestWithParam<GoldenMachine> {};

TEST_P(TinyBert, HasTheLossesAndGradients) {
  const GoldenMachine& machine = GetParam();
  for (int number = 0; number < 5; ++number) {
    SCOPED_TRACE("case " + std::to_string(number));
    const json& expected = golden().at("case " + std::to_string(number));
    const BertModel model = model_of(expected, machine);
    const FormulaStep step(model, scale(), machine, 2, {batch_of(golden().at("batch"))});
    ASSERT_EQ(json(names_of_parameters(step.training.table())), expected.at("parameters"));
    ASSERT_EQ(model.losses().size(), expected.contains("sop loss") ? 2U : 1U);
    expect_first_step(step, model, expected, machine);
  }
}

TEST_P(TinyBert, HasTheSumsOfEverySample) {
  const GoldenMachine& machine = GetParam();
  const json& expected = golden().at("case 0");
  const BertModel model = model_of(expected, machine);
  for (std::size_t b = 0; b < 2; ++b) {
    SCOPED_TRACE(b);
    json columns = golden().at("batch");
    for (json& column : columns) column = json::array({column.at(b)});
    const FormulaStep step(model, scale(), machine, 1, {batch_of(columns)});
    const json& sample = expected.at("lm sum,count per sample").at(b);
    EXPECT_NEAR(step.losses[0].sum / sample.at(0).get<double>(), 1.0, machine.tolerance.loss);
    EXPECT_EQ(step.losses[0].count, sample.at(1).get<double>());
    const json& logits = expected.at("sop logits").at(b);
    const double right = logits.at(columns.at("is_random").at(0).get<std::size_t>());
    const double all = std::log(std::exp(logits.at(0).get<double>()) +  //
                                std::exp(logits.at(1).get<double>()));
    // A small difference of two logits.
    EXPECT_NEAR(step.losses[1].sum / (all - right), 1.0, 3 * machine.tolerance.loss);
    EXPECT_EQ(step.losses[1].count, 1.0);
  }
}

// By items of a corpus, in two microbatches that count differently.
TEST_P(TinyBert, AveragesOverTheGlobalBatchOrOverMicrobatches) {
  const GoldenMachine& machine = GetParam();
  const json& items = golden().at("items");
  const json& size = golden().at("items size");
  std::vector<TinyBatch> batches;
  for (const json& columns : items.at("batches")) batches.push_back(batch_of(columns));
  const std::int64_t sequence = size.at("positions");
  const BertModel model = model_of(size, sequence, items, machine);
  for (const bool mean_of_means : {false, true}) {
    const json& expected = items.at(mean_of_means ? "microbatch" : "token");
    SCOPED_TRACE(mean_of_means ? "microbatch" : "token");
    const FormulaStep step(model, size.at("scale"), machine, 2, batches, mean_of_means);
    // What is reported is the average over the global batch in either case.
    for (std::size_t i = 0; i < step.losses.size(); ++i) {
      EXPECT_NEAR(step.mean(i) / items.at("token").at(model.losses()[i].name).get<double>(), 1.0,
                  machine.tolerance.loss);
    }
    const double norm = expected.at("grad_norm");
    EXPECT_NEAR(step.training.grad_norm() / norm, 1.0, machine.tolerance.gradient);
    expect_gradients(step.training, expected.at("gradients"), norm, machine.tolerance.gradient);
  }
}

TEST_P(TinyBert, MakesTheSameSteps) {
  for (int number = 0; number < 3; ++number) {
    SCOPED_TRACE("steps " + std::to_string(number));
    const json& run = golden().at("steps " + std::to_string(number));
    expect_steps(GetParam(), model_of(run, GetParam()), golden(), run, batch_of);
  }
}

// Mistakes that would show in no shape, and the loss each would give.
TEST_P(TinyBert, IsNotOneOfTheWrongModels) {
  const GoldenMachine& machine = GetParam();
  const json& wrong = golden().at("wrong");
  const BertModel model = model_of(golden().at("case 0"), machine);
  const json& batch = golden().at("batch");
  const FormulaStep step(model, scale(), machine, 2, {batch_of(batch)});
  const auto differs = [&](std::size_t i, double other) {
    return std::abs(step.mean(i) / other - 1.0) > 5e-6;
  };
  for (const auto& [name, losses] : wrong.items()) {
    EXPECT_TRUE(differs(0, losses.at("lm loss")) || differs(1, losses.at("sop loss"))) << name;
  }
  // What a batch or a weight can undo.
  const auto expect = [&](const json& columns, const std::string& zeroed, const char* name) {
    SCOPED_TRACE(name);
    const FormulaStep undone(model, scale(), machine, 2, {batch_of(columns)}, false, zeroed);
    EXPECT_NEAR(undone.mean(0) / wrong.at(name).at("lm loss").get<double>(), 1.0,
                machine.tolerance.loss);
    EXPECT_NEAR(undone.mean(1) / wrong.at(name).at("sop loss").get<double>(), 1.0,
                machine.tolerance.loss);
  };
  const auto with_all = [&](const char* name, int value) {
    json columns = batch;
    for (json& row : columns.at(name)) {
      for (json& item : row) item = value;
    }
    return columns;
  };
  expect(with_all("types", 0), "", "types all 0");
  expect(with_all("documents", 0), "", "padding mask ignored");
  expect(batch, "output_layer.bias", "no logit bias");
}

INSTANTIATE_TEST_SUITE_P(Machines, TinyBert, testing::ValuesIn(golden_machines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace phalanx
