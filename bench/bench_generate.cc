// Text from a model with random weights: how fast prompts are read and tokens decoded, beside the
// bandwidth of memory. A step of decoding reads all weights once, however many sequences share it:
// that is its limit. docs/generating.md says how to read it.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bench_main.h"
#include "memory_bandwidth.h"
#include "phalanx/base/cpu_affinity.h"
#include "phalanx/inference/cached_model.h"
#include "phalanx/ops/cpu/precision.h"

namespace phalanx::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> models = {"gpt2-124m", "llama-160m"};
  std::vector<std::string> dtypes = {"f32", "bf16"};
  std::vector<std::string> sequences = {"1", "8"};
  std::int64_t threads = 0;
  std::int64_t prompt = 128;
  std::int64_t tokens = 32;
  std::int64_t ranks = 1;
  std::string matmul_precision = "auto";
  bool json = false;
};

GptConfig gpt2(const std::string& name) {
  const bool small = name == "small";
  GptConfig config;
  config.vocabulary = small ? 8192 : 50257;
  config.padded_vocabulary = small ? 8192 : 50304;
  config.max_positions = 1024;
  nn::TransformerConfig& t = config.transformer;
  t.num_layers = small ? 4 : 12;
  t.hidden = small ? 256 : 768;
  t.heads = t.query_groups = small ? 8 : 12;
  t.head_size = t.hidden / t.heads;
  t.ffn_hidden = 4 * t.hidden;
  return config;
}

// The sizes of a public Llama of 162 million parameters: untied, multi-head.
GptConfig llama() {
  GptConfig config;
  config.vocabulary = config.padded_vocabulary = 32000;
  config.max_positions = 2048;
  config.position_table = false;
  config.tied_embedding = false;
  nn::TransformerConfig& t = config.transformer;
  t.num_layers = 12;
  t.hidden = 768;
  t.heads = t.query_groups = 12;
  t.head_size = 64;
  t.ffn_hidden = 3072;
  t.norm = nn::NormKind::kRmsNorm;
  t.activation = ops::ActivationKind::kSilu;
  t.gated = true;
  t.linear_bias = t.qkv_bias = false;
  t.rotary = ops::Rotary{.dimensions = 64};
  return config;
}

GptConfig model_named(const std::string& name) {
  if (name == "llama-160m") return llama();
  if (name == "gpt2-124m" || name == "small") return gpt2(name);
  throw ConfigError("--model {}: choose of gpt2-124m, llama-160m, small", name);
}

DType dtype_named(const std::string& name) {
  if (name == "f32") return DType::kF32;
  if (name == "bf16") return DType::kBF16;
  throw ConfigError("--dtype {}: choose of f32, bf16", name);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& body) {
  const auto begin = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Result {
  double prompt_seconds = 0.0;  // of a prompt
  double step_seconds = 0.0;    // median
  double slowest_step = 0.0;
  double weight_bytes = 0.0;  // that a step reads
  double bandwidth = 0.0;     // bytes/s of memory
};

// Tables of embeddings are read by rows; a tied one is the head's weight, too.
double weight_bytes_of(const GptConfig& config) {
  std::int64_t read = gpt_parameters(config);
  if (config.position_table) read -= config.max_positions * config.transformer.hidden;
  if (!config.tied_embedding) read -= config.vocabulary * config.transformer.hidden;
  return static_cast<double>(read) * static_cast<double>(size_of(config.transformer.dtype));
}

Result measure(const Options& options, GptConfig config, int sequences, int threads) {
  const bool is_bf16 = config.transformer.dtype == DType::kBF16;
  const auto products = cpu::choose_products(options.matmul_precision, is_bf16);
  config.transformer.tensor.size = static_cast<int>(options.ranks);
  CachedModel model(config, {products.products}, threads,
                    {.reads = {options.prompt},
                     .capacity = options.prompt + options.tokens,
                     .sequences = sequences});
  model.initialise();
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(options.prompt));
  std::iota(prompt.begin(), prompt.end(), 1000);
  Result result{.weight_bytes = weight_bytes_of(config),
                .bandwidth = measure_bandwidth(threads * static_cast<int>(options.ranks))};
  std::vector<double> prompts;
  std::vector<SequenceModel::Next> next;
  for (int i = 0; i < sequences; ++i) {
    prompts.push_back(seconds_of([&] { model.read(i, prompt); }));
    next.push_back({.sequence = i, .token = 7 + i});
  }
  std::vector<double> steps;
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    steps.push_back(seconds_of([&] { model.step(next); }));
  }
  result.prompt_seconds = median(prompts);
  result.step_seconds = median(steps);
  result.slowest_step = *std::ranges::max_element(steps);
  return result;
}

void print(const Options& options, const std::string& model, const std::string& dtype,
           int sequences, const Result& result) {
  const double prompt = static_cast<double>(options.prompt) / result.prompt_seconds;
  const double decoded = sequences / result.step_seconds;
  const double read = result.weight_bytes / result.step_seconds;
  if (options.json) {
    const nlohmann::ordered_json json = {{"model", model},
                                         {"dtype", dtype},
                                         {"sequences", sequences},
                                         {"prompt_tokens_per_second", prompt},
                                         {"decoded_tokens_per_second", decoded},
                                         {"step_seconds", result.step_seconds},
                                         {"slowest_step_seconds", result.slowest_step},
                                         {"weight_bytes", result.weight_bytes},
                                         {"bandwidth", result.bandwidth}};
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("| {} | {} | {} | {:.0f} | {:.1f} | {:.1f} ms | {:.1f} GB/s | {:.0f} % |\n", model,
               dtype, sequences, prompt, decoded, 1e3 * result.step_seconds, read / 1e9,
               100.0 * read / result.bandwidth);
  }
  std::fflush(stdout);
}

void run(const Options& options) {
  const auto cores = static_cast<int>(cores_of_thread().size());
  const int threads = options.threads > 0 ? static_cast<int>(options.threads)
                                          : std::max(1, cores / static_cast<int>(options.ranks));
  if (!options.json) {
    fmt::print(
        "| model | weights | sequences | prompt tokens/s | decoded tokens/s | step | weights read "
        "| of memory's bandwidth |\n|---|---|---|---|---|---|---|---|\n");
  }
  for (const std::string& name : options.models) {
    for (const std::string& dtype : options.dtypes) {
      GptConfig config = model_named(name);
      config.transformer.dtype = dtype_named(dtype);
      for (const std::string& text : options.sequences) {
        const int sequences = std::stoi(text);
        print(options, name, dtype, sequences, measure(options, config, sequences, threads));
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  using phalanx::bench::Options;
  Options o;
  return phalanx::bench::bench_main(
      argc, argv, "bench_generate", "Times prompts and decoding, with random weights.",
      [&](phalanx::FlagSet& flags) {
        flags.add(
            {.name = "--model", .help = "Some of gpt2-124m, llama-160m, small; else the first two"},
            &o.models);
        flags.add({.name = "--dtype", .help = "Some of f32, bf16; else both"}, &o.dtypes);
        flags.add({.name = "--sequences", .help = "Numbers of sequences that are decoded together"},
                  &o.sequences);
        flags.add({.name = "--threads", .help = "Threads of a rank; 0: all cores"}, &o.threads);
        flags.add({.name = "--ranks", .help = "Tensor-parallel ranks"}, &o.ranks);
        flags.add({.name = "--prompt", .help = "Tokens of a prompt"}, &o.prompt);
        flags.add({.name = "--tokens", .help = "Tokens that follow it"}, &o.tokens);
        flags.add({.name = "--matmul-precision", .help = "auto, fp32, bf16, amx2"},
                  &o.matmul_precision);
        flags.add({.name = "--json", .help = "A line of JSON for each row"}, &o.json);
      },
      [&] { phalanx::bench::run(o); });
}
