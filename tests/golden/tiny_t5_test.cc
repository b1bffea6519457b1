// Losses, gradients and AdamW steps of tiny T5s against PyTorch's (make_tiny_t5.py), on the
// reference in double and on the CPU in fp32, with both attention kernels.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "formula.h"
#include "phalanx/model/t5.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using nlohmann::json;

const json& golden() {
  static const json document = json::parse(std::ifstream(source_path("tests/golden/tiny_t5.json")));
  return document;
}

// `columns`: a batch, for its lengths.
T5Model model_of(const json& size, const json& columns, const json& variant,
                 const GoldenMachine& machine) {
  return T5Model({.transformer = golden_transformer(size, "encoder_layers", variant, machine),
                  .encoder_layers = size.at("encoder_layers"),
                  .decoder_layers = size.at("decoder_layers"),
                  .vocabulary = size.at("vocabulary"),
                  .padded_vocabulary = size.at("vocabulary"),
                  .max_positions = size.at("positions"),
                  .sequence = std::ssize(columns.at("tokens").at(0)),
                  .decoder_sequence = std::ssize(columns.at("labels").at(0)),
                  .positions = variant.at("positions") == "relative" ? T5Positions::kRelative
                                                                     : T5Positions::kLearned,
                  .relative_buckets = size.at("buckets"),
                  .relative_max_distance = size.at("max_distance"),
                  .tied_embedding = variant.at("tied"),
                  .recompute = {}});
}

T5Model model_of(const json& variant, const GoldenMachine& machine) {
  return model_of(golden().at("size"), golden().at("batch"), variant, machine);
}

// Padding has the token 0, and the document -1.
TinyBatch batch_of(const json& columns) {
  TinyBatch batch{{"tokens", sequence_first(columns.at("tokens"))},
                  {"decoder_tokens", sequence_first(columns.at("decoder_tokens"))},
                  {"labels", sequence_first(columns.at("labels"))}};
  for (const double token : batch["tokens"]) batch["document"].push_back(token > 0 ? 0 : -1);
  for (const double token : batch["decoder_tokens"]) {
    batch["decoder_document"].push_back(token > 0 ? 0 : -1);
  }
  for (const double label : batch["labels"]) batch["loss_mask"].push_back(label < 0 ? 0.0 : 1.0);
  return batch;
}

double scale() { return golden().at("size").at("scale"); }

class TinyT5 : public testing::TestWithParam<GoldenMachine> {};

TEST_P(TinyT5, HasTheLossesAndGradients) {
  const GoldenMachine& machine = GetParam();
  for (int number = 0; number < 5; ++number) {
    SCOPED_TRACE("case " + std::to_string(number));
    const json& expected = golden().at("case " + std::to_string(number));
    const T5Model model = model_of(expected, machine);
    const FormulaStep step(model, scale(), machine, 2, {batch_of(golden().at("batch"))});
    ASSERT_EQ(json(names_of_parameters(step.training.table())), expected.at("parameters"));
    expect_first_step(step, model, expected, machine);
  }
}

TEST_P(TinyT5, HasTheSumsOfEverySample) {
  const GoldenMachine& machine = GetParam();
  for (int number = 0; number < 5; ++number) {
    const json& expected = golden().at("case " + std::to_string(number));
    const T5Model model = model_of(expected, machine);
    for (std::size_t b = 0; b < 2; ++b) {
      SCOPED_TRACE("case " + std::to_string(number) + ", sample " + std::to_string(b));
      json columns = golden().at("batch");
      for (json& column : columns) column = json::array({column.at(b)});
      const FormulaStep step(model, scale(), machine, 1, {batch_of(columns)});
      const json& sample = expected.at("lm sum,count per sample").at(b);
      EXPECT_NEAR(step.losses[0].sum / sample.at(0).get<double>(), 1.0, machine.tolerance.loss);
      EXPECT_EQ(step.losses[0].count, sample.at(1).get<double>());
    }
  }
}

// By items of a corpus, in two microbatches that count differently.
TEST_P(TinyT5, AveragesOverTheGlobalBatchOrOverMicrobatches) {
  const GoldenMachine& machine = GetParam();
  const json& size = golden().at("items size");
  for (const char* name : {"items 0", "items 1"}) {
    const json& items = golden().at(name);
    std::vector<TinyBatch> batches;
    for (const json& columns : items.at("batches")) batches.push_back(batch_of(columns));
    const T5Model model = model_of(size, items.at("batches").at(0), items, machine);
    for (const bool mean_of_means : {false, true}) {
      const json& expected = items.at(mean_of_means ? "microbatch" : "token");
      SCOPED_TRACE(std::string(name) + (mean_of_means ? ", microbatch" : ", token"));
      const FormulaStep step(model, size.at("scale"), machine, 2, batches, mean_of_means);
      // What is reported is the average over the global batch in either case.
      EXPECT_NEAR(step.mean(0) / items.at("token").at("lm loss").get<double>(), 1.0,
                  machine.tolerance.loss);
      const double norm = expected.at("grad_norm");
      EXPECT_NEAR(step.training.grad_norm() / norm, 1.0, machine.tolerance.gradient);
      expect_gradients(step.training, expected.at("gradients"), norm, machine.tolerance.gradient);
    }
  }
}

TEST_P(TinyT5, MakesTheSameSteps) {
  for (int number = 0; number < 3; ++number) {
    SCOPED_TRACE("steps " + std::to_string(number));
    const json& run = golden().at("steps " + std::to_string(number));
    expect_steps(GetParam(), model_of(run, GetParam()), golden(), run, batch_of);
  }
}

// Mistakes that would show in no shape, and the loss each would give.
TEST_P(TinyT5, IsNotOneOfTheWrongModels) {
  const GoldenMachine& machine = GetParam();
  const json& batch = golden().at("batch");
  const json& wrong = golden().at("wrong");
  for (const char* name : {"case 0", "case 2"}) {
    const T5Model model = model_of(golden().at(name), machine);
    const FormulaStep step(model, scale(), machine, 2, {batch_of(batch)});
    for (const auto& [mistake, loss] : wrong.items()) {
      EXPECT_GT(std::abs(step.mean(0) / loss.get<double>() - 1.0), 1e-4) << mistake;
    }
  }
  // What a weight can undo.
  const T5Model model = model_of(golden().at("case 0"), machine);
  const FormulaStep step(model, scale(), machine, 2, {batch_of(batch)}, false,
                         "lm_head.output_layer.bias");
  EXPECT_NEAR(step.mean(0) / wrong.at("no logit bias").get<double>(), 1.0, machine.tolerance.loss);
}

INSTANTIATE_TEST_SUITE_P(Machines, TinyT5, testing::ValuesIn(golden_machines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace phalanx
