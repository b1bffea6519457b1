// What `generate` does with models that have an encoder.

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/generate.h"
#include "phalanx/families/families.h"
#include "phalanx/tasks/answer_text.h"
#include "phalanx/tasks/masked_tokens.h"
#include "phalanx/tasks/text_to_text.h"

namespace phalanx {
namespace {

std::string prompt_of(const GenerateOptions& options) {
  return options.prompts.empty() ? "" : options.prompts.front();
}

}  // namespace

int fill_masks(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained) {
  constexpr std::int64_t kCandidates = 5;
  const Tokenizer& tokenizer = *trained.tokenizer;
  std::vector<std::int32_t> tokens = encode_with_masks(tokenizer, prompt_of(options));
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
  MaskedTokens filler(trained.config, model, trained.checkpoint, trained.device,
                      std::span(&length, 1));
  const auto answers = filler.log_probabilities(tokens, places);
  const std::vector<std::int32_t> prompt = tokens;
  nlohmann::ordered_json masks = nlohmann::ordered_json::array();
  std::string table;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto best = best_candidates(
        answers[i], options.sampling.top_k > 0 ? options.sampling.top_k : kCandidates);
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
    io.print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    io.print("{}\n\n{:>5} {:>12}  token\n{}", text, "mask", "probability", table);
  }
  return 0;
}

int answer_text(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained) {
  const Tokenizer& tokenizer = *trained.tokenizer;
  const auto special = target_tokens(tokenizer, trained.checkpoint.manifest().arguments);
  const T5Config model = t5_config(trained.config, tokenizer.vocab_size());
  EncodeOptions encoding = options.encoding;
  encoding.parse_special = true;
  const auto prompt = tokenizer.encode(prompt_of(options), encoding);
  const std::int64_t length = std::ssize(prompt);
  if (length == 0) throw ConfigError("--prompt has no tokens: a T5 answers what its encoder reads");
  if (length > model.sequence) {
    throw ConfigError("--prompt has {} tokens, the model's encoder reads {}: shorten it", length,
                      model.sequence);
  }
  const std::int64_t most = std::min(options.max_tokens, model.decoder_sequence);
  TextToText writer(trained.config, model, trained.checkpoint, trained.device,
                    {.text = length, .most = most});
  const auto tokens = writer.generate(prompt, special, options.sampling);
  if (std::ssize(tokens) == most && most < options.max_tokens) {
    log_warning("the model's decoder has {} positions: the answer ends there, without [EOS]", most);
  }
  const std::string text = known_text(tokenizer, tokens);
  if (options.json) {
    const nlohmann::ordered_json json = {{"prompt", prompt}, {"tokens", tokens}, {"text", text}};
    io.print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    io.print("{}\n", text);
  }
  return 0;
}

}  // namespace phalanx
