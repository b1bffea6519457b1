#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/cli/commands.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/train/config_views.h"
#include "phalanx/train/flags.h"
#include "phalanx/train/generation.h"
#include "phalanx/train/run_checkpoint.h"
#include "phalanx/train/run_data.h"
#include "phalanx/train/run_inputs.h"

namespace phalanx {
namespace {

struct GenerateOptions {
  std::string load;
  std::string prompt;
  std::int64_t max_tokens = 128;
  double temperature = 1.0;
  std::int64_t top_k = 0;
  double top_p = 0.0;
  std::int64_t seed = 1234;
  std::int64_t threads = 0;
  std::string vocab_file, merge_file, matmul_precision = "auto";
  bool allow_overcommit = false;
  bool json = false;
};

// The training configuration that a checkpoint was made with.
TrainConfig checkpoint_config(const CheckpointReader& checkpoint) {
  TrainConfig config;
  FlagSet flags("the checkpoint's arguments", "");
  add_train_flags(flags, config);
  for (const auto& [name, value] : checkpoint.manifest().arguments) flags.set_default(name, value);
  return config;
}

TrainConfig generation_config(const GenerateOptions& options, const CheckpointReader& checkpoint) {
  TrainConfig config = for_inference(checkpoint_config(checkpoint));
  use_kept_tokenizer(config, checkpoint);
  if (!options.vocab_file.empty()) config.data.vocab_file = options.vocab_file;
  if (!options.merge_file.empty()) config.data.merge_file = options.merge_file;
  // Those that the model was trained with, where they can be had.
  const std::string& trained = checkpoint.manifest().matmul_precision;
  const bool follows = options.matmul_precision == "auto" && cpu::has_products(trained);
  config.model.matmul_precision = follows ? trained : options.matmul_precision;
  config.layout.threads_per_rank = options.threads;
  config.run.allow_overcommit = options.allow_overcommit;
  resolve(config, false);
  return config;
}

void add_flags(FlagSet& flags, GenerateOptions& o) {
  flags.add({.name = "--load",
             .help = "Save directory or one iteration's",
             .value_name = "DIR",
             .required = true},
            &o.load);
  flags.add({.name = "--prompt", .help = "The beginning of the text", .may_be_empty = true},
            &o.prompt);
  flags.add({.name = "--max-tokens", .help = "Tokens to generate at most", .range = at_least(0)},
            &o.max_tokens);
  flags.add(
      {.name = "--temperature", .help = "0: always the most likely token", .range = at_least(0)},
      &o.temperature);
  flags.add({.name = "--top-k",
             .help = "Choose among the k most likely tokens (0: all)",
             .range = at_least(0)},
            &o.top_k);
  flags.add({.name = "--top-p",
             .help = "Choose among the most likely tokens of this mass (0: all)",
             .range = from_to(0, 1)},
            &o.top_p);
  flags.add({.name = "--seed", .help = "Seed of the choices", .range = at_least(0)}, &o.seed);
  flags.add({.name = "--threads-per-rank",
             .help = "CPU threads (0: all usable cores)",
             .range = from_to(0, 1024)},
            &o.threads);
  flags.add({.name = "--matmul-precision",
             .help = "How bf16 matrices are multiplied",
             .choices = "auto fp32 bf16 amx"},
            &o.matmul_precision);
  flags.add({.name = "--vocab-file", .help = "Instead of the checkpoint's", .value_name = "FILE"},
            &o.vocab_file);
  flags.add({.name = "--merge-file", .help = "Instead of the checkpoint's", .value_name = "FILE"},
            &o.merge_file);
  flags.add({.name = "--allow-overcommit",
             .help = "Begin although the memory is above what this machine has available"},
            &o.allow_overcommit);
  flags.add({.name = "--json", .help = "One JSON document: the prompt's and the new token ids"},
            &o.json);
}

std::string json_list(const std::vector<std::int32_t>& ids) {
  std::string text = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ids[i]);
  }
  return text + "]";
}

}  // namespace

int run_generate(const Arguments& arguments) {
  GenerateOptions options;
  FlagSet flags("phalanx generate", "Text from a checkpoint.");
  add_flags(flags, options);
  flags.parse(arguments);
  const SamplingOptions sampling{.temperature = options.temperature,
                                 .top_k = options.top_k,
                                 .top_p = options.top_p,
                                 .seed = static_cast<std::uint64_t>(options.seed)};
  check(sampling);

  const auto checkpoint = CheckpointReader::open(options.load, Verify::kWeights);
  const TrainConfig config = generation_config(options, checkpoint);
  const auto tokenizer = run_tokenizer(config.data);
  const GptConfig model = gpt_config(config, tokenizer->vocab_size());
  const auto products = cpu::choose_products(config.model.matmul_precision, config.model.bf16);

  std::vector<std::int32_t> prompt = tokenizer->encode(options.prompt);
  // Without a prompt the text begins where documents do.
  if (prompt.empty()) prompt.push_back(tokenizer->end_of_document());
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (length > model.max_positions) {
    throw ConfigError("--prompt has {} tokens, the model has {} positions: shorten it", length,
                      model.max_positions);
  }
  const std::int64_t capacity = std::min(model.max_positions, length + options.max_tokens);
  if (length + options.max_tokens > model.max_positions + 1) {
    log_warning("the model has {} positions: at most {} tokens follow the prompt",
                model.max_positions, model.max_positions + 1 - length);
  }
  Generator generator(config, model, checkpoint, products.products, length, capacity);

  // Bytes of a character may be spread over tokens: what is printed is the growth of the decoded
  // whole.
  std::vector<std::int32_t> answer;
  std::size_t printed = 0;
  if (!options.json) {
    fmt::print("{}", options.prompt);
    std::fflush(stdout);
  }
  generator.generate(prompt, options.max_tokens, sampling, [&](std::int32_t id) {
    if (id == tokenizer->end_of_document()) return false;
    answer.push_back(id);
    if (!options.json) {
      const std::string text = tokenizer->decode(answer);
      fmt::print("{}", text.substr(printed));
      std::fflush(stdout);
      printed = text.size();
    }
    return true;
  });
  if (options.json) {
    fmt::print("{{\"prompt\": {}, \"tokens\": {}}}\n", json_list(prompt), json_list(answer));
  } else {
    fmt::print("\n");
  }
  return 0;
}

}  // namespace phalanx
