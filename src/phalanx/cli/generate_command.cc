#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_flags.h"
#include "phalanx/train/generation.h"

namespace phalanx {
namespace {

struct GenerateOptions {
  ModelFlags model;
  std::string prompt;
  std::int64_t max_tokens = 128;
  double temperature = 1.0;
  std::int64_t top_k = 0;
  double top_p = 0.0;
  std::int64_t seed = 1234;
  bool json = false;
};

void add_flags(FlagSet& flags, GenerateOptions& o) {
  o.model.add_load_to(flags);
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
  o.model.add_others_to(flags);
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

  const TrainedModel trained = options.model.open();
  const GptConfig& model = trained.model;
  const auto& tokenizer = trained.tokenizer;

  std::vector<std::int32_t> prompt = tokenizer->encode(options.prompt);
  // Without a prompt the text begins where documents do.
  if (prompt.empty() && tokenizer->end_of_document() < 0) {
    throw ConfigError("--prompt is empty, and the tokenizer has no end of document to begin with");
  }
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
  Generator generator(trained.config, model, trained.checkpoint, trained.products, length,
                      capacity);

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
