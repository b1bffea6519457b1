// Tiny models with experts as folders of Hugging Face's, imported: their losses and gradients
// against PyTorch's (make_tiny_experts.py), on the reference in double and on the CPU in fp32.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formula.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/hugging_face/import.h"
#include "phalanx/model/gpt.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using nlohmann::json;

const json& golden() {
  static const json document =
      json::parse(std::ifstream(source_path("tests/golden/tiny_experts.json")));
  return document;
}
const json& model_named(const std::string& name) { return golden().at("model " + name); }

std::uint32_t hash(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7FEB352DU;
  x = (x ^ (x >> 15)) * 0x846CA68BU;
  return x ^ (x >> 16);
}

// The tensors of a model, in the order of their numbers.
void write_weights(const std::filesystem::path& path, const json& tensors) {
  std::vector<SafetensorsWriter::Item> items;
  std::vector<std::vector<float>> values;
  for (std::size_t number = 0; number < tensors.size(); ++number) {
    const auto& [name, extents, base, scale] =
        tensors[number].get<std::tuple<std::string, std::vector<std::int64_t>, double, double>>();
    items.push_back({name, DType::kF32, Shape(extents)});
    values.emplace_back();
    for (std::int64_t i = 1; i <= items.back().shape.count(); ++i) {
      const auto place = static_cast<std::uint32_t>(65536 * static_cast<std::int64_t>(number) + i);
      values.back().push_back(
          static_cast<float>(base + scale * (2.0 * hash(place) / 4294967296.0 - 1.0)));
    }
  }
  SafetensorsWriter writer(path, items);
  for (const auto& tensor : values) writer.write(std::as_bytes(std::span(tensor)));
  writer.commit();
}

TinyBatch batch_of_ids() {
  const auto ids = golden().at("ids").get<std::vector<std::vector<double>>>();
  TinyBatch batch;
  for (std::size_t row = 0; row + 1 < ids[0].size(); ++row) {
    for (const std::vector<double>& text : ids) {
      batch["tokens"].push_back(text[row]);
      batch["labels"].push_back(text[row + 1]);
    }
  }
  batch["loss_mask"].assign(batch["labels"].size(), 1.0);
  return batch;
}

// A folder of the file's, imported and trained for a step without change. `changes` of config.json
// and `flags` make another model of the same tensors.
class ImportedModel {
 public:
  ImportedModel(const json& expected, const GoldenMachine& machine, const json& changes = {},
                const std::string& flags = "")
      : backend_(machine.backend()), folder_("tiny_experts") {
    json config = expected.at("config");
    if (!changes.is_null()) config.update(changes);
    put_file(folder_.path() / "config.json", config.dump());
    write_weights(folder_.path() / "model.safetensors", expected.at("tensors"));
    import_.emplace(folder_.path());
    model_.emplace(model_of(machine, flags), kSequence);
    training_.emplace(
        TinyRun{
            .model = *model_, .micro_batch = 2, .microbatches = 1, .optimizer = {.clip_grad = 1.0}},
        *backend_);
    training_->initialise();
    set_parameters();
    loss_ = training_->step({.lr = 0.0}, {{batch_of_ids()}}).at(0).mean();
  }

  double loss() const { return loss_; }
  // The logit of a class in the first row of the first text, less that of class 0.
  double logit(std::int32_t label) { return loss_of_first_row(0) - loss_of_first_row(label); }
  const TinyTraining& training() const { return *training_; }

  // An expert has a gradient if it has tokens. `counts`: of the layers with experts.
  void expect_tokens(const json& counts) const {
    std::size_t layer = 0;
    for (std::int64_t i = 0; i < model_->transformer().num_layers; ++i) {
      if (!model_->transformer().experts.in_layer(i)) continue;
      const json& of_layer = counts.at(layer++);
      for (std::size_t expert = 0; expert < of_layer.size(); ++expert) {
        const std::string name =
            fmt::format("decoder.layers.{}.mlp.experts.{}.linear_fc2.weight", i, expert);
        EXPECT_EQ(norm_of(training_->gradient(id_of(name))) > 0.0, of_layer[expert] > 0) << name;
      }
    }
    EXPECT_EQ(layer, counts.size());
  }

  // Norms of gradients of their tensors against those of ours.
  void expect_gradients(const json& norms, double tolerance) const {
    const double all = training_->grad_norm();
    for (const auto& row : import_->table().rows) {
      double expected = 0.0;
      for (const auto& part : row.parts) {
        const double norm = norms.at(part.name);
        expected += norm * norm;
      }
      expected = std::sqrt(expected);
      const double norm = norm_of(training_->gradient(id_of(row.name)));
      EXPECT_NEAR(norm, expected, tolerance * std::max(expected, 0.01 * all)) << row.name;
    }
  }

 private:
  static constexpr std::int64_t kSequence = 8;

  GptConfig model_of(const GoldenMachine& machine, const std::string& more) const {
    std::string flags;
    for (const auto& [flag, value] : import_->settings().arguments()) {
      if (flag.starts_with("--")) flags += flag + " " + value + " ";
    }
    TrainConfig config = with_flags(
        {}, flags + "--seq-length 8 --micro-batch-size 2 --global-batch-size 2 --train-iters 1 " +
                "--lr 1e-3 --mock-data --tokenizer-type NullTokenizer --vocab-size 31 " + more);
    resolve(config, true);
    const std::int64_t vocabulary = import_->settings().vocabulary();
    GptConfig model = gpt_config(config, vocabulary);
    EXPECT_EQ(model.vocabulary, vocabulary);
    model.padded_vocabulary = vocabulary;
    model.transformer.dtype = machine.dtype;
    model.transformer.attention = machine.attention;
    return model;
  }

  ParamId id_of(const std::string& name) const {
    for (ParamId id = 0; id < training_->table().size(); ++id) {
      if (training_->table()[id].name == name) return id;
    }
    throw InternalError("no parameter {}", name);
  }

  // Training changes nothing at a rate of 0.
  double loss_of_first_row(std::int32_t label) {
    TinyBatch batch = batch_of_ids();
    batch["loss_mask"].assign(batch["loss_mask"].size(), 0.0);
    batch["loss_mask"][0] = 1.0;
    batch["labels"][0] = label;
    return training_->step({.lr = 0.0}, {{batch}}).at(0).mean();
  }

  void set_parameters() {
    const auto& rows = import_->table().rows;
    // Without norms of queries and keys a model leaves their weights out.
    ASSERT_LE(static_cast<std::size_t>(training_->table().size()), rows.size());
    std::map<std::string, std::size_t> places;
    for (std::size_t row = 0; row < rows.size(); ++row) places[rows[row].name] = row;
    for (ParamId id = 0; id < training_->table().size(); ++id) {
      const std::size_t row = places.at(training_->table()[id].name);
      std::vector<float> values(static_cast<std::size_t>(rows[row].shape.count()));
      auto to = std::as_writable_bytes(std::span(values)).begin();
      hugging_face::visit_ours(
          rows[row], import_->parts(row), DType::kF32,
          [&](std::span<const std::byte> bytes) { to = std::ranges::copy(bytes, to).out; });
      training_->set_parameter(id, std::vector<double>(values.begin(), values.end()));
    }
  }

  std::unique_ptr<Backend> backend_;
  TemporaryDirectory folder_;
  std::optional<hugging_face::Import> import_;
  std::optional<GptModel> model_;
  std::optional<TinyTraining> training_;
  double loss_ = 0.0;
};

class TinyExperts : public testing::TestWithParam<GoldenMachine> {
 protected:
  bool is_exact() const { return GetParam().dtype == DType::kF64; }
  double tolerance() const { return is_exact() ? 1e-10 : 2e-6; }
};

TEST_P(TinyExperts, AreTheModelsThatOthersHave) {
  int models = 0;
  for (const auto& [name, expected] : golden().items()) {
    if (!name.starts_with("model ")) continue;
    SCOPED_TRACE(name);
    ++models;
    ImportedModel model(expected, GetParam());
    EXPECT_NEAR(model.loss() / expected.at("loss").get<double>(), 1.0, tolerance());
    const double norm = expected.at("grad_norm");
    EXPECT_NEAR(model.training().grad_norm() / norm, 1.0, tolerance());
    model.expect_gradients(expected.at("gradients"), is_exact() ? 1e-10 : 1e-5);
    model.expect_tokens(expected.at("tokens of experts"));
    const auto logits = expected.at("logits").get<std::vector<double>>();
    for (const std::int32_t label : {1, 2, 3}) {
      EXPECT_NEAR(model.logit(label), logits[static_cast<std::size_t>(label)] - logits[0],
                  is_exact() ? 1e-10 : 5e-6);
    }
  }
  EXPECT_EQ(models, 5);
}

// What transformers and megatron-core give of the same tensors.
TEST(TinyExpertsFile, HasKnownLosses) {
  struct Row {
    const char* name;
    double loss, norm;
  };
  for (const Row& row : {Row{"mixtral", 4.297105854404, 3.574441803403},
                         Row{"qwen2-moe", 4.010323179803, 3.855792541885},
                         Row{"qwen3-moe", 4.011197057894, 4.167263740585}}) {
    const json& expected = model_named(row.name);
    EXPECT_NEAR(expected.at("loss").get<double>(), row.loss, 1e-12) << row.name;
    EXPECT_NEAR(expected.at("grad_norm").get<double>(), row.norm, 1e-12) << row.name;
  }
}

// The losses of routers, each summed over the layers, and the gradient of all losses.
TEST_P(TinyExperts, AreBalanced) {
  const json& expected = golden().at("balanced");
  const ImportedModel model(model_named("mixtral"), GetParam(), {},
                            "--moe-aux-loss-coeff 0.02 --moe-z-loss-coeff 0.001");
  EXPECT_NEAR(0.02 * model.training().auxiliary_loss(0) / expected.at("balance").get<double>(), 1.0,
              tolerance());
  EXPECT_NEAR(0.001 * model.training().auxiliary_loss(1) / expected.at("z").get<double>(), 1.0,
              tolerance());
  EXPECT_NEAR(model.loss() / model_named("mixtral").at("loss").get<double>(), 1.0, tolerance());
  const double norm = expected.at("grad_norm");
  EXPECT_NEAR(norm, 3.5766624602, 1e-9);
  EXPECT_NEAR(model.training().grad_norm() / norm, 1.0, tolerance());
  model.expect_gradients(expected.at("gradients"), is_exact() ? 1e-10 : 1e-5);
}

// The model of each mistake is one that Phalanx has, and has its loss.
TEST_P(TinyExperts, AreNotTheWrongModels) {
  struct Mistake {
    json changes;
    std::string flags;
  };
  const std::map<std::string, Mistake> mistakes = {
      {"mixtral: the other probabilities", {{}, "--moe-router-pre-softmax"}},
      {"mixtral: up before gate", {{}, ""}},
      {"qwen2-moe: the other probabilities", {{{"norm_topk_prob", true}}, ""}},
      {"qwen2-moe: no gate of the shared expert", {{}, "--moe-shared-expert-gate false"}},
      {"qwen3-moe: the other probabilities", {{{"norm_topk_prob", false}}, ""}},
      {"qwen3-moe: no norms of queries and keys", {{}, "--qk-layernorm false"}},
      {"qwen3: no norms of queries and keys", {{}, "--qk-layernorm false"}}};
  json exchanged = model_named("mixtral");
  for (json& tensor : exchanged.at("tensors")) {
    std::string name = tensor[0];
    for (const auto& [from, to] : {std::pair(".w1.", ".w3."), std::pair(".w3.", ".w1.")}) {
      const std::size_t at = name.find(from);
      if (at == std::string::npos) continue;
      tensor[0] = name.replace(at, 4, to);
      break;
    }
  }
  std::size_t tried = 0;
  for (const json& wrong : golden().at("wrong")) {
    const std::string model = wrong.at("model");
    const std::string name = model + ": " + wrong.at("mistake").get<std::string>();
    SCOPED_TRACE(name);
    const double loss = wrong.at("loss");
    EXPECT_GT(std::abs(model_named(model).at("loss").get<double>() - loss), 1e-3);
    const auto& [changes, flags] = mistakes.at(name);
    ++tried;
    const bool is_exchanged = name == "mixtral: up before gate";
    const ImportedModel made(is_exchanged ? exchanged : model_named(model), GetParam(), changes,
                             flags);
    EXPECT_NEAR(made.loss() / loss, 1.0, tolerance());
  }
  EXPECT_EQ(tried, mistakes.size());
}

INSTANTIATE_TEST_SUITE_P(Machines, TinyExperts, testing::ValuesIn(golden_machines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace phalanx
