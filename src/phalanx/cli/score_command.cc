#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/family_commands.h"
#include "phalanx/cli/model_flags.h"
#include "phalanx/cli/score_rows.h"
#include "phalanx/cli/text_input.h"
#include "phalanx/families/families.h"
#include "phalanx/inference/scoring.h"
#include "phalanx/tasks/answer_text.h"
#include "phalanx/tasks/masked_tokens.h"
#include "phalanx/tasks/text_to_text.h"

namespace phalanx {
namespace {

struct CommandOptions {
  ModelFlags model;
  std::vector<std::string> tokens;
  std::string target;
  bool lines = false;
  std::int64_t stride = 0;
  bool names_stride = false;
  bool logits = false;
  bool json = false;
};

// A text that is scored, and its name in messages.
struct Text {
  std::string source;
  std::vector<std::int32_t> ids;
};

void add_flags(FlagSet& flags, CommandOptions& o) {
  o.model.add_load_to(flags);
  flags.add({.name = "--tokens",
             .help = "Token ids, instead of the text of standard input",
             .value_name = "ID",
             .excludes = "--lines"},
            &o.tokens);
  flags.add({.name = "--target",
             .help = "Of a T5, and needed there: the text that is scored, given the other one"},
            &o.target);
  flags.add({.name = "--lines", .help = "Each line by itself, without its end"}, &o.lines);
  flags.add({.name = "--stride",
             .help = "Texts longer than the model's positions: in windows, each N tokens after the "
                     "one before (0: they are refused)",
             .range = at_least(0)},
            &o.stride);
  flags.add({.name = "--logits",
             .help = "Also the logits of the token that would follow",
             .needs = "--json"},
            &o.logits);
  o.model.add_others_to(flags);
  flags.add({.name = "--json",
             .help = "One JSON document: token ids, log probabilities of all but the first, loss "
                     "(their negated mean), perplexity; with --lines one a line"},
            &o.json);
  const auto add_example = [&](std::string_view call, std::string_view meaning) {
    flags.add_example(fmt::format("{} {}", flags.command(), call), std::string(meaning));
  };
  add_example("--load RUN < text.txt", "every token's log probability");
  add_example("--load RUN --lines --json < lines.txt", "a JSON document for each line");
  add_example("--load T5 --target '<extra_id_0> blue' < text.txt", "what a T5 says of an answer");
  add_example("--load CLASSIFIER < dev.tsv", "accuracy, F1 and loss of labelled rows");
  add_example("--load RUN --stride 512 --json < book.txt", "perplexity of a long text");
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// A text as ids. DataError, naming `source`, if it has no encoding.
Text text_of(std::string source, std::string_view text, const Tokenizer& tokenizer,
             const EncodeOptions& encoding) {
  check_utf8(text, source);
  try {
    auto ids = tokenizer.encode(text, encoding);
    return Text{std::move(source), std::move(ids)};
  } catch (const DataError& error) {
    throw DataError("{}: {}", source, error.what());
  }
}

std::vector<Text> texts_of(const ScoredTexts& given, const Tokenizer& tokenizer,
                           const EncodeOptions& encoding) {
  std::vector<Text> texts;
  for (const std::string& text : given.texts) {
    texts.push_back(text_of(fmt::format("texts[{}]", texts.size()), text, tokenizer, encoding));
  }
  for (const auto& ids : given.tokens) {
    texts.push_back({fmt::format("tokens[{}]", texts.size() - given.texts.size()), ids});
  }
  return texts;
}

std::vector<Text> read_texts(CommandIo& io, const CommandOptions& options,
                             const Tokenizer& tokenizer, const EncodeOptions& encoding) {
  if (!options.tokens.empty()) {
    const std::string ids = fmt::format("{}", fmt::join(options.tokens, " "));
    return {{"--tokens", token_ids_of(ids, "--tokens")}};
  }
  constexpr std::string_view kSource = "standard input";
  const std::string input = standard_input(io);
  if (input.empty()) {
    throw DataError("{} is empty: give the text there, or --tokens", kSource);
  }
  if (!options.lines) return {text_of(std::string(kSource), input, tokenizer, encoding)};
  std::vector<Text> texts;
  for (const std::string_view line : lines_of(input)) {
    texts.push_back(
        text_of(fmt::format("{}, line {}", kSource, texts.size() + 1), line, tokenizer, encoding));
  }
  return texts;
}

void check_ids(const Text& text, std::int64_t vocabulary) {
  for (std::size_t i = 0; i < text.ids.size(); ++i) {
    if (text.ids[i] >= 0 && text.ids[i] < vocabulary) continue;
    throw DataError("{}: token {} is {}; the model's vocabulary has {} ids", text.source, i,
                    text.ids[i], vocabulary);
  }
}

void check_text(const Text& text, const GptConfig& model, const CommandOptions& options) {
  const std::int64_t length = std::ssize(text.ids);
  if (length < 2) {
    throw DataError("{}: {}: a probability needs a token before it, so give two or more",
                    text.source, length == 0 ? "no tokens" : "one token");
  }
  check_ids(text, model.vocabulary);
  const std::int64_t most = model.max_positions + (options.logits ? 0 : 1);
  if (length <= most || options.stride > 0) return;
  throw DataError(
      "{}: {} tokens; the model has {} positions, enough for {}{}{}: shorten it, or give --stride "
      "N "
      "with N from 1 to {} to score it in windows (N = {}: one after the other; smaller: with more "
      "context, slower)",
      text.source, length, model.max_positions, most, options.logits ? " with --logits" : "",
      options.names_stride ? ", and --stride 0 makes no windows" : "", model.max_positions,
      model.max_positions);
}

// Prints every number with enough digits to read it back.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}
// From the loss as it is printed.
double perplexity_of(const TextScore& score) {
  return std::exp(static_cast<double>(static_cast<float>(score.loss)));
}

std::string to_json(const Text& text, const TextScore& score) {
  std::string json =
      fmt::format(R"({{"tokens": [{}], "log_probabilities": [{}], "loss": {}, "perplexity": {})",
                  fmt::join(text.ids, ", "), fmt::join(score.log_probabilities, ", "),
                  fmt::format("{}", static_cast<float>(score.loss)), number(perplexity_of(score)));
  if (!score.logits.empty()) {
    json += fmt::format(R"(, "logits": [{}])", fmt::join(score.logits, ", "));
  }
  return json + "}\n";
}

// The text of one token, quoted; bytes that are not a whole character are marked.
std::string quoted(const Tokenizer& tokenizer, std::int32_t id) {
  using Json = nlohmann::json;
  return Json(known_text(tokenizer, std::span(&id, 1)))
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_table(const Text& text, const TextScore& score, const Tokenizer& tokenizer) {
  std::string table = fmt::format("{:>8} {:>8} {:>12}  text\n", "token", "id", "log p");
  for (std::size_t i = 0; i < text.ids.size(); ++i) {
    const std::string log_probability = i == 0 || i > score.log_probabilities.size()
                                            ? "-"
                                            : fmt::format("{:.4f}", score.log_probabilities[i - 1]);
    table += fmt::format("{:>8} {:>8} {:>12}  {}\n", i, text.ids[i], log_probability,
                         quoted(tokenizer, text.ids[i]));
  }
  return table + fmt::format("{} tokens, loss {:.6f}, perplexity {:.6g}\n",
                             format_count(std::ssize(text.ids)), score.loss, perplexity_of(score));
}

// Prints a row for each line, and the mean over all tokens.
class LineTable {
 public:
  static std::string head() {
    return fmt::format("{:>8} {:>10} {:>12} {:>14}\n", "line", "tokens", "loss", "perplexity");
  }
  std::string row(const Text& text, const TextScore& score) {
    const std::int64_t scored = std::ssize(score.log_probabilities);
    scored_ += scored;
    tokens_ += std::ssize(text.ids);
    sum_ += score.loss * static_cast<double>(scored);
    return line(std::to_string(++lines_), std::ssize(text.ids), score.loss);
  }
  std::string foot() const { return line("all", tokens_, sum_ / static_cast<double>(scored_)); }

 private:
  static std::string line(const std::string& name, std::int64_t tokens, double loss) {
    return fmt::format("{:>8} {:>10} {:>12.6f} {:>14.6g}\n", name, format_count(tokens), loss,
                       std::exp(loss));
  }
  std::int64_t lines_ = 0, tokens_ = 0, scored_ = 0;
  double sum_ = 0.0;
};

// The tokens that are scored.
struct Scored {
  const Text& tokens;
  TextScore score;
};

// Prints each text as soon as it has a score.
void print_scores(CommandIo& io, const CommandOptions& options, const Tokenizer& tokenizer,
                  const std::vector<Text>& texts,
                  const std::function<Scored(const Text&)>& score_of) {
  LineTable table;
  const bool has_table = options.lines && !options.json;
  if (has_table) io.write(LineTable::head());
  for (const Text& text : texts) {
    const auto& [tokens, score] = score_of(text);
    io.write(options.json    ? to_json(tokens, score)
             : options.lines ? table.row(tokens, score)
                             : to_table(tokens, score, tokenizer));
  }
  if (has_table) io.write(table.foot());
}

// For a BERT: each token is masked alone, with all others as they are.
TextScore masked_score(MaskedTokens& model, const Text& text, std::int32_t mask) {
  TextScore result;
  for (const double value : model.score(text.ids, mask)) {
    result.log_probabilities.push_back(static_cast<float>(value));
    result.loss -= value;
  }
  result.loss /= static_cast<double>(result.log_probabilities.size());
  return result;
}

// Puts the texts between [CLS] and [SEP], unless their ids have them already.
int score_masked(CommandIo& io, const CommandOptions& options, const TrainedModel& trained,
                 std::vector<Text> texts) {
  if (options.logits) throw ConfigError("--logits: no token follows the text of a BERT");
  if (options.stride > 0) throw ConfigError("--stride: a BERT's texts are not cut into windows");
  const Tokenizer& tokenizer = *trained.tokenizer;
  const BertConfig model = bert_config(trained.config, tokenizer.vocab_size());
  const std::vector<std::int32_t> ends = encode_with_masks(tokenizer, "");
  const std::int32_t mask = *tokenizer.special_tokens().mask;
  std::vector<std::int64_t> lengths;
  for (Text& text : texts) {
    const bool has_ends = !text.ids.empty() && text.ids.front() == ends.front();
    if (!has_ends) {
      text.ids.insert(text.ids.begin(), ends.front());
      text.ids.push_back(ends.back());
    }
    const std::int64_t length = std::ssize(text.ids);
    if (length < 3) throw DataError("{}: no tokens", text.source);
    for (const std::int32_t id : text.ids) {
      if (id >= 0 && id < model.vocabulary) continue;
      throw DataError("{}: there is a token {}; the model's vocabulary has {} ids", text.source, id,
                      model.vocabulary);
    }
    if (length > model.max_positions) {
      throw DataError("{}: {} tokens with [CLS] and [SEP]; the model has {} positions: shorten it",
                      text.source, length, model.max_positions);
    }
    lengths.push_back(length);
  }
  MaskedTokens scorer(trained.config, model, trained.checkpoint, trained.device, lengths);
  print_scores(io, options, tokenizer, texts, [&](const Text& text) {
    return Scored{text, masked_score(scorer, text, mask)};
  });
  return 0;
}

void check_target_flags(const CommandOptions& options) {
  if (options.target.empty()) {
    throw ConfigError(
        "--target must be given: a T5 reads the text and says how likely a target is there");
  }
  if (options.logits) throw ConfigError("--logits: no token follows the [EOS] of a T5's target");
  if (options.stride > 0) throw ConfigError("--stride: a T5's texts are not cut into windows");
}

// Puts the target between its begin and end tokens, unless it has them already.
std::vector<std::int32_t> target_ids(const std::string& target, const TrainedModel& trained,
                                     const T5Config& model) {
  const Tokenizer& tokenizer = *trained.tokenizer;
  const auto special = target_tokens(tokenizer, trained.checkpoint.manifest().arguments);
  check_utf8(target, "--target");
  auto ids = tokenizer.encode(target, {.parse_special = true});
  if (ids.empty() || ids.front() != special.begin) ids.insert(ids.begin(), special.begin);
  const bool is_closed =
      ids.size() > 1 && std::ranges::find(special.ends, ids.back()) != special.ends.end();
  if (!is_closed) ids.push_back(special.ends.front());
  if (std::ssize(ids) - 1 <= model.decoder_sequence) return ids;
  throw ConfigError("--target has {} tokens with its [EOS]; the model's decoder has {}: shorten it",
                    ids.size() - 1, model.decoder_sequence);
}

void check_encoder_text(const Text& text, const T5Config& model) {
  if (text.ids.empty()) throw DataError("{}: no tokens", text.source);
  check_ids(text, model.vocabulary);
  if (std::ssize(text.ids) <= model.sequence) return;
  throw DataError("{}: {} tokens; the model's encoder reads {}: shorten it", text.source,
                  text.ids.size(), model.sequence);
}

// For a T5: scores the target's tokens, given each of the texts.
int score_target(CommandIo& io, const CommandOptions& options, const TrainedModel& trained,
                 const std::vector<Text>& texts) {
  const Tokenizer& tokenizer = *trained.tokenizer;
  const T5Config model = t5_config(trained.config, tokenizer.vocab_size());
  const Text target{"--target", target_ids(options.target, trained, model)};
  for (const Text& text : texts) check_encoder_text(text, model);
  TextToText scorer(trained.config, model, trained.checkpoint, trained.device);
  print_scores(io, options, tokenizer, texts, [&](const Text& text) {
    return Scored{target, scorer.score(text.ids, target.ids)};
  });
  return 0;
}

void check_row_flags(const CommandOptions& options) {
  for (const auto& [flag, is_given] :
       {std::pair("--tokens", !options.tokens.empty()),
        std::pair("--target", !options.target.empty()), std::pair("--stride", options.names_stride),
        std::pair("--logits", options.logits)}) {
    if (is_given) {
      throw ConfigError(
          "{}: a classifier is scored on labelled rows of standard input: leave it out", flag);
    }
  }
}

}  // namespace

int run_score(CommandIo& io, const Arguments& arguments) {
  return score(io, {"phalanx score"}, arguments);
}

int score(CommandIo& io, const ModelCommand& command, const Arguments& arguments,
          const ScoredTexts* given) {
  CommandOptions options;
  options.model = ModelFlags(command.family);
  FlagSet flags(
      command.name,
      "How likely a model holds a text to be: the log probability of each token given "
      "those before it; of a BERT, given all others; of a T5's target, given the text, too. How "
      "good a classifier is on labelled rows.");
  add_flags(flags, options);
  flags.parse(arguments);
  options.names_stride = flags.given("--stride");
  if (given != nullptr && (!options.tokens.empty() || options.lines)) {
    throw UsageError("{}: the texts are given as a list: leave it out",
                     options.lines ? "--lines" : "--tokens");
  }

  const TrainedModel trained = options.model.open_any();
  if (trained.is_classifier()) {
    check_row_flags(options);
    if (given != nullptr) {
      throw ConfigError(
          "a classifier is scored on labelled rows, not on texts: give the rows to the command "
          "score as its input");
    }
    return score_rows(io, trained, {.lines = options.lines, .json = options.json});
  }
  const GptConfig& model = trained.model;
  if (options.stride > model.max_positions) {
    throw ConfigError("--stride {} leaves tokens out between windows: the model has {} positions",
                      options.stride, model.max_positions);
  }
  const std::string& family = trained.config.model.family;
  const bool is_own = command.family != nullptr;
  if (is_own) expect_language_model(command, trained);
  const bool has_target = family == "t5" && !is_own;
  if (has_target) check_target_flags(options);
  if (!has_target && !options.target.empty()) {
    throw ConfigError("--target: {} has no decoder to score a target with, a T5 has: leave it out",
                      family);
  }
  // A T5 reads texts with sentinels in them.
  const EncodeOptions encoding{.parse_special = has_target};
  const std::vector<Text> texts = given != nullptr
                                      ? texts_of(*given, *trained.tokenizer, encoding)
                                      : read_texts(io, options, *trained.tokenizer, encoding);
  if (has_target) return score_target(io, options, trained, texts);
  if (family == "bert" && !is_own) return score_masked(io, options, trained, texts);
  if (!trained.goes_on) throw ConfigError("{} is no model whose texts have a score here", family);
  std::vector<std::int64_t> lengths;
  for (const Text& text : texts) {
    check_text(text, model, options);
    lengths.push_back(std::ssize(text.ids));
  }
  Scorer scorer(trained.config, model, trained.checkpoint, trained.device,
                trained.tokenizer->end_of_document(), lengths,
                {.stride = options.stride, .logits = options.logits});
  print_scores(io, options, *trained.tokenizer, texts, [&](const Text& text) {
    return Scored{text, scorer.score(text.ids)};
  });
  return 0;
}

}  // namespace phalanx
