#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_flags.h"
#include "phalanx/tasks/masked_tokens.h"
#include "phalanx/tasks/text_to_text.h"
#include "phalanx/train/families/families.h"
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
  flags.add(
      {.name = "--prompt",
       .help =
           "The beginning of the text; for a BERT a text with [MASK] where it fills something in, "
           "for a T5 what its encoder reads",
       .may_be_empty = true},
      &o.prompt);
  flags.add({.name = "--max-tokens", .help = "Tokens to generate at most", .range = at_least(0)},
            &o.max_tokens);
  flags.add(
      {.name = "--temperature", .help = "0: always the most likely token", .range = at_least(0)},
      &o.temperature);
  flags.add(
      {.name = "--top-k",
       .help =
           "Choose among the k most likely tokens (0: all); for a BERT the answers to show (0: 5)",
       .range = at_least(0)},
      &o.top_k);
  flags.add({.name = "--top-p",
             .help = "Choose among the most likely tokens of this mass (0: all)",
             .range = from_to(0, 1)},
            &o.top_p);
  flags.add({.name = "--seed", .help = "Seed of the choices", .range = at_least(0)}, &o.seed);
  o.model.add_others_to(flags);
  flags.add(
      {.name = "--json",
       .help = "One JSON document: the prompt's and the new token ids; for a BERT and a T5 also "
               "the text, for a BERT the answers for each mask"},
      &o.json);
}

std::string json_list(const std::vector<std::int32_t>& ids) {
  std::string text = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ids[i]);
  }
  return text + "]";
}

// The likeliest tokens in the places of [MASK], each by itself, the others as the text has them.
int fill_masks(const GenerateOptions& options, const TrainedModel& trained) {
  constexpr std::int64_t kCandidates = 5;
  const Tokenizer& tokenizer = *trained.tokenizer;
  std::vector<std::int32_t> tokens = encode_with_masks(tokenizer, options.prompt);
  const std::int32_t mask = *tokenizer.special_tokens().mask;
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
    if (tokens[static_cast<std::size_t>(i)] == mask) places.push_back(i);
  }
  if (places.empty()) {
    throw ConfigError("--prompt has no [MASK]: a BERT fills in what is left open");
  }
  const BertConfig model = bert_config(trained.config, tokenizer.vocab_size());
  const std::int64_t length = std::ssize(tokens);
  if (length > model.max_positions) {
    throw ConfigError("--prompt has {} tokens, the model has {} positions: shorten it", length,
                      model.max_positions);
  }
  MaskedTokens filler(trained.config, model, trained.checkpoint, trained.products,
                      std::span(&length, 1));
  const auto answers = filler.log_probabilities(tokens, places);
  const std::vector<std::int32_t> prompt = tokens;
  nlohmann::ordered_json masks = nlohmann::ordered_json::array();
  std::string table;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto best = best_candidates(answers[i], options.top_k > 0 ? options.top_k : kCandidates);
    tokens[static_cast<std::size_t>(places[i])] = best.front().id;
    nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
    for (const Candidate& candidate : best) {
      const std::string piece = tokenizer.piece(candidate.id);
      candidates.push_back(
          {{"id", candidate.id}, {"text", piece}, {"probability", candidate.probability}});
      table += fmt::format("{:>5} {:>12.4f}  {}\n", i + 1, candidate.probability, piece);
    }
    masks.push_back({{"place", places[i]}, {"candidates", std::move(candidates)}});
  }
  const std::string text = tokenizer.decode(tokens, {.skip_special = true});
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"prompt", prompt}, {"tokens", tokens}, {"text", text}, {"masks", std::move(masks)}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}\n\n{:>5} {:>12}  token\n{}", text, "mask", "probability", table);
  }
  return 0;
}

// What a T5 says about the text: a token at a time, up to [EOS].
int answer(const GenerateOptions& options, const TrainedModel& trained,
           const SamplingOptions& sampling) {
  const Tokenizer& tokenizer = *trained.tokenizer;
  const TargetTokens special(tokenizer);
  const T5Config model = t5_config(trained.config, tokenizer.vocab_size());
  const auto prompt = tokenizer.encode(options.prompt, {.parse_special = true});
  const std::int64_t length = std::ssize(prompt);
  if (length == 0) throw ConfigError("--prompt has no tokens: a T5 answers what its encoder reads");
  if (length > model.sequence) {
    throw ConfigError("--prompt has {} tokens, the model's encoder reads {}: shorten it", length,
                      model.sequence);
  }
  const std::int64_t most = std::min(options.max_tokens, model.decoder_sequence);
  TextToText writer(trained.config, model, trained.checkpoint, trained.products,
                    {.text = length, .most = most});
  const auto tokens = writer.generate(prompt, special.bos, special.eos, sampling);
  if (std::ssize(tokens) == most && most < options.max_tokens) {
    log_warning("the model's decoder has {} positions: the answer ends there, without [EOS]", most);
  }
  const std::string text = tokenizer.decode(tokens);
  if (options.json) {
    const nlohmann::ordered_json json = {{"prompt", prompt}, {"tokens", tokens}, {"text", text}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}\n", text);
  }
  return 0;
}

// What generation needs of a family.
void expect_gpt(const TrainConfig& config) {
  if (config.model.family == "gpt") return;
  throw ConfigError("{} is a model that neither goes on with a text nor fills in or answers one",
                    config.model.family);
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
  if (trained.config.model.family == "bert") return fill_masks(options, trained);
  if (trained.config.model.family == "t5") return answer(options, trained, sampling);
  expect_gpt(trained.config);
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
  Generator generator(trained.config, model, trained.checkpoint, trained.products,
                      std::span(&length, 1), capacity,
                      "Give fewer --max-tokens or end other programs");

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
