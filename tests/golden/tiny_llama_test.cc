// Losses, logits, gradients and AdamW steps of tiny Llamas and their relatives against PyTorch's
// (make_tiny_llama.py), on the reference in double and on the CPU in fp32, with both attention
// kernels.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formula.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/data/gpt_columns.h"
#include "phalanx/model/gpt.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using nlohmann::json;

const json& golden() {
  static const json document =
      json::parse(std::ifstream(source_path("tests/golden/tiny_llama.json")));
  return document;
}

ops::ActivationKind activation_named(const std::string& name) {
  using enum ops::ActivationKind;
  static const std::map<std::string, ops::ActivationKind> kinds{{"silu", kSilu},
                                                                {"relu", kRelu},
                                                                {"squared_relu", kSquaredRelu},
                                                                {"gelu_tanh", kGeluTanh},
                                                                {"gelu_erf", kGeluErf}};
  return kinds.at(name);
}

std::optional<ops::Rotary> rotary_of(const json& variant) {
  if (variant.at("dimensions") == 0) return std::nullopt;
  ops::Rotary rotary{.dimensions = variant.at("dimensions"),
                     .base = variant.at("base"),
                     .interleaved = variant.at("interleaved"),
                     .interpolation = variant.at("interpolation"),
                     .factor = variant.at("factor"),
                     .original_positions = variant.at("original"),
                     .truncate = variant.at("truncate"),
                     .attention_factor = variant.at("attention_factor")};
  if (variant.at("scaling") == "llama3") rotary.scaling = ops::Rotary::Scaling::kLlama3;
  if (variant.at("scaling") == "yarn") {
    rotary.scaling = ops::Rotary::Scaling::kYarn;
    rotary.beta_fast = variant.at("beta_fast");
    rotary.beta_slow = variant.at("beta_slow");
  }
  return rotary;
}

nn::TransformerConfig transformer_of(const json& size, const json& variant,
                                     const GoldenMachine& machine,
                                     const nn::AdapterSettings& adapters) {
  const double scale = variant.at("attention_scale");
  return {.num_layers = size.at("layers"),
          .hidden = size.at("hidden"),
          .ffn_hidden = size.at("ffn"),
          .heads = size.at("heads"),
          .query_groups = variant.at("groups"),
          .head_size = size.at("head_size"),
          .norm = variant.at("norm") == "rms" ? nn::NormKind::kRmsNorm : nn::NormKind::kLayerNorm,
          .norm_zero_centred = variant.at("zero_centred"),
          .norm_epsilon = variant.at("epsilon"),
          .activation = activation_named(variant.at("activation")),
          .gated = variant.at("gated"),
          .linear_bias = variant.at("linear_bias"),
          .qkv_bias = variant.at("qkv_bias"),
          .qk_norm = variant.at("qk_norm"),
          .attention = machine.attention,
          .rotary = rotary_of(variant),
          .attention_scale = scale == 0.0 ? std::nullopt : std::optional(scale),
          .window = variant.at("window"),
          .window_layers = variant.at("window_layers").get<std::vector<bool>>(),
          .mask_documents = variant.at("documents"),
          .dtype = machine.dtype,
          .tensor = {},
          .adapters = adapters,
          .init_key = {},
          .dropout_key = {}};
}

GptModel model_of(const json& size, const json& variant, std::int64_t sequence,
                  const GoldenMachine& machine, const nn::AdapterSettings& adapters = {}) {
  return {{.transformer = transformer_of(size, variant, machine, adapters),
           .vocabulary = size.at("vocabulary"),
           .padded_vocabulary = size.at("vocabulary"),
           .max_positions = sequence,
           .position_table = false,
           .tied_embedding = variant.at("tied"),
           .recompute = {}},
          sequence};
}

TinyBatch batch_of(const json& columns) {
  TinyBatch batch;
  for (const auto& [name, rows] : columns.items()) batch[name] = sequence_first(rows);
  batch["loss_mask"].assign(batch["labels"].size(), 1.0);
  return batch;
}

// The batch of the whole model's two sequences, as a GPT's samples are made of them.
TinyBatch whole_batch(const GptBatchOptions& options) {
  const json& ids = golden().at("whole ids");
  const std::size_t samples = ids.size();
  TinyBatch batch;
  for (std::size_t i = 0; i < samples; ++i) {
    const auto tokens = ids.at(i).get<std::vector<std::int32_t>>();
    const BatchSchema schema = gpt_batch_schema(std::ssize(tokens) - 1);
    Sample sample(schema);
    fill_gpt_sample(tokens, std::ssize(tokens), options, schema, sample);
    const auto put = [&]<typename T>(const char* name, T /*element*/) {
      const auto rows = sample.column<T>(schema.index(name));
      std::vector<double>& column = batch[name];
      column.resize(rows.size() * samples);
      for (std::size_t row = 0; row < rows.size(); ++row) column[row * samples + i] = rows[row];
    };
    for (const char* name : {"tokens", "labels", "position_ids", "position", "document"}) {
      put(name, std::int32_t{});
    }
    put("loss_mask", float{});
  }
  return batch;
}

// The adapters of a whole model, which are then all that is trained.
struct TinyAdapters {
  nn::AdapterSettings settings;
  bool has_b = true;  // else B is zero
};

// The model that make_tiny_llama.py makes of Hugging Face's tensors.
class WholeLlama {
 public:
  WholeLlama(const json& expected, const GoldenMachine& machine,
             const GptBatchOptions& options = {}, const TinyAdapters& adapters = {},
             const std::vector<double>& loss_mask = {})
      : backend_(machine.backend()),
        model_(model_of(golden().at("whole size"), variant_of(expected, options), 8, machine,
                        adapters.settings)),
        training_({.model = model_,
                   .micro_batch = 2,
                   .microbatches = 1,
                   .optimizer = {.clip_grad = 1.0},
                   .is_frozen = adapters.settings.rank > 0 ? is_no_adapter : nullptr},
                  *backend_),
        batch_(whole_batch(options)),
        has_b_(adapters.has_b) {
    training_.initialise();
    set_parameters();
    if (!loss_mask.empty()) batch_["loss_mask"] = loss_mask;
    losses_ = training_.step({.lr = 0.0, .weight_decay = 0.0, .adam_step = 1}, {{batch_}});
  }

  // The loss and the norm of this many steps of AdamW.
  struct Step {
    double loss, norm;
  };
  std::vector<Step> steps(int count) {
    training_.initialise();
    number_ = 0;
    set_parameters();
    std::vector<Step> result;
    for (int i = 1; i <= count; ++i) {
      losses_ = training_.step({.lr = 0.01, .weight_decay = 0.01, .adam_step = i}, {{batch_}});
      result.push_back({loss(), training_.grad_norm()});
    }
    return result;
  }

  const TinyTraining& training() const { return training_; }
  double loss() const { return losses_.at(0).mean(); }
  double tokens() const { return losses_.at(0).count; }
  double gradient_norm(const std::string& name) const {
    for (ParamId id = 0; id < training_.table().size(); ++id) {
      if (training_.table()[id].name == name) return norm_of(training_.gradient(id));
    }
    ADD_FAILURE() << "no parameter " << name;
    return 0.0;
  }

 private:
  using Values = std::vector<double>;

  static bool is_no_adapter(const std::string& name) { return name.find(".lora.") == name.npos; }

  static json variant_of(const json& expected, const GptBatchOptions& options) {
    json variant = expected.at("variant");
    variant["documents"] = options.reset_attention_mask;
    return variant;
  }

  static std::uint32_t hash(std::uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7FEB352DU;
    x = (x ^ (x >> 15)) * 0x846CA68BU;
    return x ^ (x >> 16);
  }

  // The next of Hugging Face's tensors, row-major.
  Values next(std::int64_t count, double base, double scale) {
    Values values;
    for (std::int64_t i = 1; i <= count; ++i) {
      const double unit = hash(65536U * number_ + static_cast<std::uint32_t>(i)) / 4294967296.0;
      values.push_back(static_cast<float>(base + scale * (2.0 * unit - 1.0)));
    }
    ++number_;
    return values;
  }

  void set_parameters() {
    const nn::TransformerConfig& config = model_.transformer();
    const std::int64_t h = config.hidden;
    const std::int64_t q = config.heads * config.head_size;
    const std::int64_t kv = config.query_groups * config.head_size;
    std::map<std::string, Values> values;
    values["embedding.word_embeddings.weight"] = next(model_.vocabulary().ids * h, 0.0, 1.0);
    for (std::int64_t i = 0; i < config.num_layers; ++i) {
      const std::string layer = "decoder.layers." + std::to_string(i) + ".";
      values[layer + "input_layernorm.weight"] = next(h, 1.0, 0.1);
      const Values queries = next(q * h, 0.0, 0.5);
      const Values keys = next(kv * h, 0.0, 0.5);
      const Values group_values = next(kv * h, 0.0, 0.5);
      Values& qkv = values[layer + "self_attention.linear_qkv.weight"];
      for (std::int64_t group = 0; group < config.query_groups; ++group) {
        for (const Values* part : {&queries, &keys, &group_values}) {
          const std::ptrdiff_t length = std::ssize(*part) / config.query_groups;
          qkv.insert(qkv.end(), part->begin() + group * length,
                     part->begin() + (group + 1) * length);
        }
      }
      values[layer + "self_attention.linear_proj.weight"] = next(h * q, 0.0, 0.5);
      values[layer + "pre_mlp_layernorm.weight"] = next(h, 1.0, 0.1);
      Values& gate_and_up = values[layer + "mlp.linear_fc1.weight"];
      gate_and_up = next(config.ffn_hidden * h, 0.0, 0.5);
      const Values up = next(config.ffn_hidden * h, 0.0, 0.5);
      gate_and_up.insert(gate_and_up.end(), up.begin(), up.end());
      values[layer + "mlp.linear_fc2.weight"] = next(h * config.ffn_hidden, 0.0, 0.5);
    }
    values["decoder.final_layernorm.weight"] = next(h, 1.0, 0.1);
    values["output_layer.weight"] = next(model_.vocabulary().ids * h, 0.0, 0.5);
    set_adapters(values);
    ASSERT_EQ(static_cast<std::size_t>(training_.table().size()), values.size());
    for (ParamId id = 0; id < training_.table().size(); ++id) {
      training_.set_parameter(id, values.at(training_.table()[id].name));
    }
  }

  // Two tensors for each part of each layer, also where a model has no adapter.
  void set_adapters(std::map<std::string, Values>& values) {
    const std::map<std::string, std::string> linears = {
        {"q", "self_attention.linear_qkv"}, {"k", "self_attention.linear_qkv"},
        {"v", "self_attention.linear_qkv"}, {"o", "self_attention.linear_proj"},
        {"gate", "mlp.linear_fc1"},         {"up", "mlp.linear_fc1"},
        {"down", "mlp.linear_fc2"}};
    std::map<std::string, std::int64_t> counts;
    for (const ParamSpec& spec : training_.table().specs()) {
      counts[spec.name] = spec.global_shape.count();
    }
    for (std::int64_t i = 0; i < model_.transformer().num_layers; ++i) {
      for (const char* part : {"q", "k", "v", "o", "gate", "up", "down"}) {
        const std::string name =
            "decoder.layers." + std::to_string(i) + "." + linears.at(part) + ".lora." + part;
        const bool has = counts.contains(name + ".A.weight");
        const auto add = [&](const std::string& factor, double scale) {
          Values drawn = next(has ? counts.at(name + factor) : 0, 0.0, scale);
          if (has) values[name + factor] = std::move(drawn);
        };
        add(".A.weight", 0.25);
        add(".B.weight", has_b_ ? 0.25 : 0.0);
      }
    }
  }

  std::unique_ptr<Backend> backend_;
  GptModel model_;
  TinyTraining training_;
  TinyBatch batch_;
  bool has_b_;
  std::uint32_t number_ = 0;
  std::vector<TinyTraining::Loss> losses_;
};

class TinyLlama : public testing::TestWithParam<GoldenMachine> {};

// What transformers and megatron-core both give of the same tensors.
TEST_P(TinyLlama, IsTheModelThatOthersHave) {
  const GoldenMachine& machine = GetParam();
  const double tolerance = machine.dtype == DType::kF64 ? 2e-10 : 1e-6;
  const WholeLlama whole(golden().at("whole"), machine);
  EXPECT_NEAR(whole.loss() / 4.225127716689, 1.0, tolerance);
  EXPECT_NEAR(whole.training().grad_norm() / 3.050257876529, 1.0, tolerance);
  EXPECT_NEAR(whole.gradient_norm("decoder.layers.0.self_attention.linear_qkv.weight"), 1.264307014,
              2e-6);
  EXPECT_NEAR(whole.gradient_norm("decoder.layers.1.mlp.linear_fc1.weight"), 0.861614550, 2e-6);
  EXPECT_NEAR(whole.gradient_norm("output_layer.weight"), 1.301468207, 2e-6);
  const WholeLlama windowed(golden().at("whole with a window"), machine);
  EXPECT_NEAR(windowed.loss() / 4.122969858169, 1.0, tolerance);
  EXPECT_NEAR(windowed.training().grad_norm() / 2.819498850991, 1.0, tolerance);
}

// Megatron-LM's flags for documents that share a sample, where 24 ends a document: what its masks
// and positions give of the same tensors. Rotation only knows distances, so that positions which
// restart change nothing once rows see their own document alone.
TEST_P(TinyLlama, SeparatesDocumentsByTheFlags) {
  struct Row {
    GptBatchOptions options;
    double tokens, loss, norm;
  };
  constexpr std::int32_t kEod = 24;
  const std::vector<Row> rows = {
      {{.eod = kEod, .reset_attention_mask = true}, 16, 4.232908476525, 2.790998890223},
      {{.eod = kEod, .reset_position_ids = true, .reset_attention_mask = true},
       16,
       4.232908476525,
       2.790998890223},
      {{.eod = kEod,
        .eod_mask_loss = true,
        .reset_position_ids = true,
        .reset_attention_mask = true},
       14,
       4.271690641528,
       3.073652514054},
      {{.eod = kEod, .reset_position_ids = true}, 16, 4.267995917840, 3.101779042972}};
  const double tolerance = GetParam().dtype == DType::kF64 ? 2e-10 : 1e-6;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.loss);
    const WholeLlama whole(golden().at("whole"), GetParam(), row.options);
    EXPECT_EQ(whole.tokens(), row.tokens);
    EXPECT_NEAR(whole.loss() / row.loss, 1.0, tolerance);
    EXPECT_NEAR(whole.training().grad_norm() / row.norm, 1.0, tolerance);
  }
}

// Of rank 2 with alpha 4, at all seven linears of each layer.
TinyAdapters tiny_adapters(bool has_b) {
  TinyAdapters adapters{.settings = {.rank = 2, .scale = 2.0}, .has_b = has_b};
  std::fill_n(adapters.settings.parts.begin(), 7, true);
  return adapters;
}

// What peft gives of the same tensors, computed in double.
TEST_P(TinyLlama, TrainsAdaptersAsOthersDo) {
  const bool is_exact = GetParam().dtype == DType::kF64;
  const double tolerance = is_exact ? 2e-9 : 2e-5;
  struct Row {
    bool has_b;
    std::vector<WholeLlama::Step> steps;
  };
  const std::vector<Row> rows = {{false,
                                  {{4.225127716689, 1.352053899794},
                                   {4.053383727978, 1.498431672},
                                   {3.849146132949, 1.602746351},
                                   {3.635373586416, 1.463094860}}},
                                 {true,
                                  {{4.183208645213, 1.936148934409},
                                   {3.853925049283, 1.567188792},
                                   {3.635351253188, 1.399108391},
                                   {3.437123005801, 1.664929023}}}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.has_b ? "B given" : "B zero");
    WholeLlama whole(golden().at("whole"), GetParam(), {}, tiny_adapters(row.has_b));
    const std::vector<WholeLlama::Step> steps = whole.steps(4);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_NEAR(steps[i].loss / row.steps[i].loss, 1.0, is_exact ? 1e-11 : tolerance);
      EXPECT_NEAR(steps[i].norm / row.steps[i].norm, 1.0, tolerance);
    }
  }
}

TEST_P(TinyLlama, HasTheGradientsOfAdapters) {
  struct Row {
    const char* part;
    double a, b;
  };
  const WholeLlama given(golden().at("whole"), GetParam(), {}, tiny_adapters(true));
  for (const Row& row : {Row{"0.self_attention.linear_qkv.lora.q", .248108117, .228463752},
                         Row{"0.self_attention.linear_qkv.lora.v", .335874060, .351099475},
                         Row{"0.self_attention.linear_proj.lora.o", .675603944, .690140081},
                         Row{"0.mlp.linear_fc1.lora.gate", .311352307, .418324495},
                         Row{"0.mlp.linear_fc2.lora.down", .373638952, .388768605},
                         Row{"1.self_attention.linear_qkv.lora.k", .088021731, .071129533}}) {
    const std::string name = std::string("decoder.layers.") + row.part;
    EXPECT_NEAR(given.gradient_norm(name + ".A.weight"), row.a, 1e-6) << name;
    EXPECT_NEAR(given.gradient_norm(name + ".B.weight"), row.b, 1e-6) << name;
  }
  const WholeLlama zero(golden().at("whole"), GetParam(), {}, tiny_adapters(false));
  for (const Row& row : {Row{"0.self_attention.linear_qkv.lora.q", 0, .122462217},
                         Row{"0.self_attention.linear_qkv.lora.v", 0, .545565346},
                         Row{"0.self_attention.linear_proj.lora.o", 0, .872162573},
                         Row{"0.mlp.linear_fc2.lora.down", 0, .275137634}}) {
    const std::string name = std::string("decoder.layers.") + row.part;
    EXPECT_EQ(zero.gradient_norm(name + ".A.weight"), 0.0) << name;
    EXPECT_NEAR(zero.gradient_norm(name + ".B.weight"), row.b, 1e-6) << name;
  }
}

TEST_P(TinyLlama, HasAdaptersOfOtherScalesAndPlaces) {
  const double tolerance = GetParam().dtype == DType::kF64 ? 2e-10 : 2e-6;
  TinyAdapters adapters = tiny_adapters(true);
  adapters.settings.scale = 4.0 / std::sqrt(2.0);
  const WholeLlama stabilized(golden().at("whole"), GetParam(), {}, adapters);
  EXPECT_NEAR(stabilized.loss() / 4.101280875988, 1.0, tolerance);
  adapters.settings = {.rank = 2, .scale = 2.0, .layers = {false, true}};
  adapters.settings.parts[static_cast<std::size_t>(nn::AdapterPart::kQuery)] = true;
  adapters.settings.parts[static_cast<std::size_t>(nn::AdapterPart::kValue)] = true;
  const WholeLlama upper(golden().at("whole"), GetParam(), {}, adapters);
  EXPECT_NEAR(upper.loss() / 4.252087364012, 1.0, tolerance);
  EXPECT_NEAR(upper.training().grad_norm() / .533364206866, 1.0, tolerance);
}

// Two conversations whose answers are the last 3 and the last 7 labels: the mean over tokens, and
// over conversations, where a row counts as its share of them.
TEST_P(TinyLlama, AveragesTokensOrConversations) {
  const auto mask = [](double first, double second) {
    std::vector<double> rows;
    for (int row = 0; row < 8; ++row) {
      rows.push_back(row >= 5 ? first : 0.0);
      rows.push_back(row >= 1 ? second : 0.0);
    }
    return rows;
  };
  const double tolerance = GetParam().dtype == DType::kF64 ? 1e-8 : 1e-6;
  const WholeLlama by_token(golden().at("whole"), GetParam(), {}, {}, mask(1.0, 1.0));
  EXPECT_NEAR(by_token.loss() / 4.054590032830, 1.0, tolerance);
  EXPECT_EQ(by_token.tokens(), 10);
  const WholeLlama by_sample(golden().at("whole"), GetParam(), {}, {}, mask(1.0 / 3.0, 1.0 / 7.0));
  EXPECT_NEAR(by_sample.loss() / 4.241282124547, 1.0, 10 * tolerance);
  EXPECT_NEAR(by_sample.tokens(), 2, 1e-6);
}

TEST_P(TinyLlama, HasTheGradientsOfTheWhole) {
  const GoldenMachine& machine = GetParam();
  for (const char* name : {"whole", "whole with a window"}) {
    SCOPED_TRACE(name);
    const json& expected = golden().at(name);
    const WholeLlama whole(expected, machine);
    ASSERT_EQ(json(names_of_parameters(whole.training().table())), expected.at("parameters"));
    EXPECT_NEAR(whole.loss() / expected.at("lm loss").get<double>(), 1.0, machine.tolerance.loss);
    const double norm = expected.at("grad_norm");
    EXPECT_NEAR(whole.training().grad_norm() / norm, 1.0, machine.tolerance.gradient);
    expect_gradients(whole.training(), expected.at("gradients"), norm, machine.tolerance.gradient);
  }
}

void expect_variant(const json& run, const GoldenMachine& machine) {
  const GptModel model =
      model_of(golden().at("size"), run.at("variant"), golden().at("sequence"), machine);
  nn::ParamTable table;
  model.build_chunk(model.whole(), table);
  ASSERT_EQ(json(names_of_parameters(table)), run.at("parameters"));
  expect_steps(machine, model, golden(), run, batch_of);
}

TEST_P(TinyLlama, MakesTheSameSteps) {
  for (const auto& [name, run] : golden().items()) {
    if (!name.starts_with("variant ")) continue;
    SCOPED_TRACE(name);
    expect_variant(run, GetParam());
  }
}

// Mistakes that would show in no shape, and the loss that each would give.
TEST_P(TinyLlama, IsNotOneOfTheWrongModels) {
  const double scale = golden().at("size").at("scale");
  for (const json& wrong : golden().at("wrong")) {
    const std::string mistake = wrong.at("mistake");
    const json& run = golden().at("variant " + wrong.at("variant").get<std::string>());
    SCOPED_TRACE(mistake);
    const GptModel model =
        model_of(golden().at("size"), run.at("variant"), golden().at("sequence"), GetParam());
    std::vector<TinyBatch> batches;
    for (const json& columns : run.at("steps").at(0).at("batches")) {
      batches.push_back(batch_of(columns));
    }
    const FormulaStep step(model, scale, GetParam(), 1, batches);
    EXPECT_GT(std::abs(step.mean(0) / wrong.at("lm loss").get<double>() - 1.0), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, TinyLlama, testing::ValuesIn(golden_machines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace phalanx
