#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/llmc_export.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/hugging_face_commands.h"
#include "phalanx/cli/model_flags.h"
#include "phalanx/cli/output_files.h"
#include "phalanx/cli/verb.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/hugging_face/adapters.h"
#include "phalanx/rules/resolve.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string load, output, tokens, data_path;
  std::string dtype = "auto";
  bool overwrite = false;
};

void add_flags(FlagSet& flags, ExportOptions& o) {
  flags.add({.name = "--load",
             .help = "Save directory or one iteration's",
             .value_name = "DIR",
             .required = true},
            &o.load);
  flags.add({.name = "--output", .help = "Model file", .value_name = "FILE", .required = true},
            &o.output);
  flags.add({.name = "--dtype",
             .help = "How weights are stored (auto: as the checkpoint has them)",
             .choices = "auto fp32 bf16"},
            &o.dtype);
  flags.add({.name = "--tokens",
             .help = "Token file, of the dataset at --data-path",
             .value_name = "FILE",
             .needs = "--data-path"},
            &o.tokens);
  flags.add({.name = "--data-path",
             .help = "Prefix of the .bin and .idx files",
             .value_name = "PREFIX",
             .needs = "--tokens"},
            &o.data_path);
  flags.add({.name = "--overwrite", .help = "Replace files that are there"}, &o.overwrite);
}

void check_outputs(const ExportOptions& options) {
  check_output("--output", options.output, options.overwrite);
  if (options.tokens.empty()) return;
  check_output("--tokens", options.tokens, options.overwrite);
  std::error_code unknown;  // what cannot be resolved cannot be written either
  if (fs::weakly_canonical(options.tokens, unknown) ==
          fs::weakly_canonical(options.output, unknown) &&
      !unknown) {
    throw ConfigError("--output and --tokens are the same file: name two");
  }
  for (const std::string& input : {bin_path(options.data_path), idx_path(options.data_path)}) {
    for (const std::string& output : {options.output, options.tokens}) {
      std::error_code error;
      if (!fs::equivalent(input, output, error)) continue;
      throw ConfigError("{} would replace the dataset that is read: name another file", output);
    }
  }
}

// The model's header, but for its dtype. ConfigError, a line for each reason, where llm.c's GPT-2
// is another model.
LlmcConfig llmc_config(const TrainConfig& config, std::int64_t vocabulary) {
  const ModelConfig& model = config.model;
  std::vector<std::string> faults;
  const auto expect = [&](bool holds, std::string_view fault) {
    if (!holds) faults.emplace_back(fault);
  };
  expect(!model.untie_embeddings_and_output_weights,
         "--untie-embeddings-and-output-weights: llm.c's output layer is its word table");
  expect(model.ffn_hidden_size == 4 * model.hidden_size,
         "--ffn-hidden-size: llm.c's is 4 x --hidden-size");
  expect(model.num_query_groups == model.num_attention_heads,
         "--num-query-groups: llm.c's heads have keys and values of their own");
  expect(model.kv_channels * model.num_attention_heads == model.hidden_size,
         "--kv-channels: llm.c's heads share --hidden-size out among them");
  expect(model.position_embedding_type == "learned_absolute",
         "--position-embedding-type: llm.c has a learned table");
  expect(model.normalization == "LayerNorm", "--normalization: llm.c's norms are LayerNorm");
  expect(!model.apply_layernorm_1p,
         "--apply-layernorm-1p: llm.c's norm weights are kept as they are");
  expect(!model.disable_bias_linear, "--disable-bias-linear: llm.c's linears have biases");
  expect(config.experts.num_experts == 0, "--num-experts: a layer of llm.c has one MLP");
  expect(!model.qk_layernorm, "--qk-layernorm: llm.c normalises no queries and keys");
  expect(model.window_size == ModelConfig{}.window_size,
         "--window-size: every token of llm.c sees all before it");
  expect(model.attention_scale == 0.0, "--attention-scale: llm.c's is 1 / sqrt(head size)");
  expect(model.activation_func == "gelu" && !model.gated_linear_unit,
         "--activation-func and --gated-linear-unit: llm.c has GeLU, not gated");
  expect(!model.no_bias_gelu_fusion, "--no-bias-gelu-fusion: llm.c has the tanh form of GeLU");
  expect(static_cast<float>(model.norm_epsilon) == 1e-5F, "--norm-epsilon: llm.c's is 1e-05");
  if (!faults.empty()) {
    throw ConfigError("llm.c cannot have this model: {}",
                      fmt::join(faults, "\nllm.c cannot have this model: "));
  }
  return {.dtype = DType::kF32,
          .max_sequence = model.max_position_embeddings,
          .vocabulary = vocabulary,
          .layers = model.num_layers,
          .heads = model.num_attention_heads,
          .channels = model.hidden_size,
          .padded_vocabulary = round_up(vocabulary, kLlmcVocabularyMultiple)};
}

DType stored_dtype(const std::string& requested, const ModelConfig& model) {
  if (requested == "auto" && model.fp16) {
    throw ConfigError(
        "the weights are fp16, which llm.c has not: give --dtype fp32, which keeps every value, "
        "or --dtype bf16");
  }
  const bool is_bf16 = requested == "auto" ? model.bf16 : requested == "bf16";
  return is_bf16 ? DType::kBF16 : DType::kF32;
}

void add_tokens(const IndexedDataset& data, LlmcTokenWriter& writer) {
  constexpr std::int64_t kPiece = 1 << 16;
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < data.sequences(); ++i) {
    for (std::int64_t at = 0; at < data.length(i); at += kPiece) {
      ids.resize(static_cast<std::size_t>(std::min<std::int64_t>(kPiece, data.length(i) - at)));
      data.get(i, at, ids);
      writer.add(ids);
    }
  }
}

void export_llmc_files(const Arguments& arguments) {
  ExportOptions options;
  FlagSet flags("phalanx export llmc", "A checkpoint's weights, and a dataset, as llm.c's files.");
  add_flags(flags, options);
  flags.parse(arguments);
  check_outputs(options);

  const auto checkpoint = CheckpointReader::open(options.load, Verify::kWeights);
  if (hugging_face::has_adapters(checkpoint)) {
    throw ConfigError(
        "--load {} has adapters, which llm.c has not: make a model without them first, with export "
        "hf --merge-lora and import hf",
        options.load);
  }
  TrainConfig config = for_inference(checkpoint_config(checkpoint));
  resolve(config, false);
  LlmcConfig model = llmc_config(config, llmc_vocabulary(checkpoint));
  model.dtype = stored_dtype(options.dtype, config.model);

  // The smaller file first: its faults are known sooner.
  std::string written;
  std::optional<LlmcTokenWriter> tokens;
  if (!options.tokens.empty()) {
    const IndexedDataset data(options.data_path);
    tokens.emplace(options.tokens, data.tokens(), model.vocabulary);
    add_tokens(data, *tokens);
    written = fmt::format("; {}: {} tokens", options.tokens, format_count(data.tokens()));
  }
  DurableFile file(options.output);
  export_llmc_model(checkpoint, model, file);
  // Only now: both, or none.
  file.commit();
  if (tokens) tokens->commit();
  log_info("{}: {} weights of iteration {}{}", options.output,
           model.dtype == DType::kBF16 ? "bf16" : "fp32", checkpoint.manifest().iteration, written);
}

}  // namespace

int run_export(CommandIo& io, const Arguments& arguments) {
  constexpr std::array<Verb, 2> kVerbs = {{{"llmc", "llm.c's model and token files"},
                                           {"hf", "a folder of Hugging Face's transformers"}}};
  const std::string verb = verb_of("phalanx export", kVerbs, arguments);
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (verb == "hf") return run_export_hugging_face(io, rest);
  export_llmc_files(rest);
  return 0;
}

}  // namespace phalanx
