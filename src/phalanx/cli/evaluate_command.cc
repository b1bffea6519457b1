#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/model_flags.h"
#include "phalanx/cli/verb.h"
#include "phalanx/tasks/cloze.h"
#include "phalanx/tasks/detokenizers.h"
#include "phalanx/tasks/perplexity.h"

namespace phalanx {
namespace {

struct EvaluateOptions {
  ModelFlags model;
  std::string valid_data, task, detokenizer = "auto";
  std::int64_t seq_length = 0;
  std::int64_t overlapping_eval = 32;
  bool strict_lambada = false;
  bool json = false;
};

void add_data_flag(FlagSet& flags, EvaluateOptions& o, std::string_view help) {
  flags.add({.name = "--valid-data", .help = help, .value_name = "FILE", .required = true},
            &o.valid_data);
}

void add_common_flags(FlagSet& flags, EvaluateOptions& o) {
  flags.add({.name = "--task", .help = "Name in the line of results", .value_name = "NAME"},
            &o.task);
  flags.add({.name = "--seq-length",
             .help = "Tokens that the model sees at once (0: as many as it was trained with)",
             .range = at_least(0)},
            &o.seq_length);
  o.model.add_others_to(flags);
  flags.add({.name = "--json", .help = "One JSON document"}, &o.json);
}

void add_perplexity_flags(FlagSet& flags, EvaluateOptions& o) {
  o.model.add_load_to(flags);
  add_data_flag(flags, o, "A text file");
  flags.add({.name = "--detokenizer",
             .help = "Undoes what a benchmark did to its text; auto: ptb, wiki or lambada, where "
                     "the file's path has one of these",
             .choices = "auto ptb wiki lambada none"},
            &o.detokenizer);
  flags.add({.name = "--overlapping-eval",
             .help = "Tokens from the beginning of one window to that of the next; the last so "
                     "many of a window are scored, and of the first all",
             .range = at_least(1)},
            &o.overlapping_eval);
  add_common_flags(flags, o);
  flags.add_example("phalanx evaluate perplexity --load RUN --valid-data wiki.test.tokens",
                    "as Megatron's WIKITEXT103");
}

void add_cloze_flags(FlagSet& flags, EvaluateOptions& o) {
  o.model.add_load_to(flags);
  add_data_flag(flags, o, "JSON lines, {\"text\": ...}");
  flags.add(
      {.name = "--strict-lambada", .help = "Asks for the last word; without, for the last token"},
      &o.strict_lambada);
  add_common_flags(flags, o);
  flags.add_example(
      "phalanx evaluate cloze --load RUN --valid-data lambada_test.jsonl --strict-lambada",
      "as Megatron's LAMBADA");
}

// Prints the progress every ten seconds.
class ProgressLines {
 public:
  ProgressLines(std::string what, std::int64_t total) : what_(std::move(what)), total_(total) {}
  void advance(std::int64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + kInterval;
    log_info("> {} of {} {}", format_count(done), format_count(total_), what_);
  }

 private:
  static constexpr std::chrono::seconds kInterval{10};
  std::string what_;
  std::int64_t total_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kInterval;
};

TrainedModel open_gpt(const EvaluateOptions& o) {
  TrainedModel trained = o.model.open();
  const std::string& family = trained.config.model.family;
  if (family != "gpt") throw ConfigError("--load: a {}; this task is a GPT's", family);
  return trained;
}

// The largest number of tokens in a window.
std::int64_t window_of(const EvaluateOptions& o, const TrainedModel& trained) {
  const std::int64_t positions = trained.model.max_positions;
  if (o.seq_length > positions) {
    throw ConfigError("--seq-length {}: the model has {} positions", o.seq_length, positions);
  }
  if (o.seq_length > 0) return o.seq_length;
  const std::int64_t trained_with = trained.config.data.seq_length;
  return trained_with > 0 ? std::min(trained_with, positions) : positions;
}

void check_ids(std::span<const std::int32_t> ids, const TrainedModel& trained,
               const std::string& path) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < trained.model.vocabulary) continue;
    throw DataError("{}: token id {}; the model's vocabulary has {} ids", path, id,
                    trained.model.vocabulary);
  }
}

// Prints a line between rules, as Megatron does.
void print_line(CommandIo& io, const std::string& line) {
  const std::string rule(line.size() + 1, '-');
  io.print("{}\n{}\n{}\n", rule, line, rule);
}

int run_perplexity(CommandIo& io, const EvaluateOptions& o) {
  const TrainedModel trained = open_gpt(o);
  const std::int64_t window = window_of(o, trained);
  if (o.overlapping_eval > window) {
    throw ConfigError("--overlapping-eval {} leaves tokens out: windows have {}",
                      o.overlapping_eval, window);
  }
  const std::string detokenizer =
      o.detokenizer == "auto" ? std::string(detokenizer_of(o.valid_data)) : o.detokenizer;
  const EvaluationText text = read_evaluation_text(o.valid_data, detokenizer, *trained.tokenizer);
  check_ids(text.tokens, trained, o.valid_data);
  const std::int64_t tokens = std::ssize(text.tokens);
  log_info("> number of original tokens: {}, number of detokenized tokens: {} (detokenizer: {})",
           text.words, tokens, detokenizer);
  ProgressLines progress("tokens", tokens);
  Scorer scorer(trained.config, trained.model, trained.checkpoint, trained.device,
                trained.tokenizer->end_of_document(), std::span(&tokens, 1),
                {.stride = o.overlapping_eval,
                 .positions = window,
                 .on_window = [&](std::int64_t done) { progress.advance(done); }});
  const Perplexity result = perplexity_of(scorer.score(text.tokens).loss, text);
  const std::string task = o.task.empty() ? "WIKITEXT103" : o.task;
  if (!o.json) {
    print_line(io, result_line(task, result));
    return 0;
  }
  const nlohmann::ordered_json json = {
      {"task", task},
      {"loss", result.loss},
      {"ppl", result.ppl},
      {"adjusted_ppl", result.adjusted_ppl},
      {"token_ratio", result.token_ratio},
      {"tokens", tokens},
      {"words", text.words},
      {"windows", perplexity_windows(tokens - 1, o.overlapping_eval)},
      {"seq_length", window},
      {"overlapping_eval", o.overlapping_eval},
      {"detokenizer", detokenizer}};
  io.print("{}\n", json.dump());
  return 0;
}

int run_cloze(CommandIo& io, const EvaluateOptions& o) {
  const TrainedModel trained = open_gpt(o);
  const std::int64_t window = window_of(o, trained);
  auto examples = read_cloze(o.valid_data, *trained.tokenizer, o.strict_lambada);
  log_info("> found {} samples", examples.size());
  CachedModel::Sizes sizes{.reads = {1}, .capacity = 0, .sequences = 1};
  const std::int64_t shortened = shorten(examples, window);
  if (shortened > 0) {
    log_warning("{} of {} passages are longer than {} tokens: their beginning is left out",
                shortened, examples.size(), window);
  }
  for (const ClozeExample& example : examples) {
    check_ids(example.context, trained, o.valid_data);
    check_ids(example.target, trained, o.valid_data);
    sizes.reads.push_back(std::ssize(example.context));
    sizes.capacity =
        std::max(sizes.capacity, std::ssize(example.context) + std::ssize(example.target) - 1);
  }
  const auto model = plan_model(trained, std::move(sizes));
  load_model(trained, *model, "Give a smaller --seq-length or end other programs");
  ProgressLines progress("passages", std::ssize(examples));
  const ClozeResult result =
      evaluate_cloze(*model, examples, [&](std::int64_t done) { progress.advance(done); });
  const std::string task = o.task.empty() ? "LAMBADA" : o.task;
  if (!o.json) {
    print_line(io, result_line(task, result));
    return 0;
  }
  const auto count = static_cast<double>(result.examples);
  const double loss = -result.log_probability / count;
  const nlohmann::ordered_json json = {{"task", task},
                                       {"correct", result.correct},
                                       {"examples", result.examples},
                                       {"accuracy", static_cast<double>(result.correct) / count},
                                       {"target_loss", loss},
                                       {"target_ppl", std::exp(std::min(20.0, loss))},
                                       {"strict", o.strict_lambada},
                                       {"shortened", shortened},
                                       {"seq_length", window}};
  io.print("{}\n", json.dump());
  return 0;
}

}  // namespace

int run_evaluate(CommandIo& io, const Arguments& arguments) {
  constexpr std::array<Verb, 2> kVerbs = {
      {{"perplexity", "how well a model predicts a text, in windows that overlap"},
       {"cloze", "how often it guesses the last word of a passage"}}};
  const std::string verb = verb_of("phalanx evaluate", kVerbs, arguments);
  EvaluateOptions options;
  const bool is_cloze = verb == "cloze";
  FlagSet flags("phalanx evaluate " + verb,
                is_cloze ? "How often a GPT guesses the end of a passage (LAMBADA)."
                         : "How well a GPT predicts a text file (WikiText, Penn treebank).");
  is_cloze ? add_cloze_flags(flags, options) : add_perplexity_flags(flags, options);
  flags.parse({arguments.begin() + 1, arguments.end()});
  return is_cloze ? run_cloze(io, options) : run_perplexity(io, options);
}

}  // namespace phalanx
