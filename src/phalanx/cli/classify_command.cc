#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/json_line.h"
#include "phalanx/cli/model_flags.h"
#include "phalanx/cli/text_input.h"
#include "phalanx/tasks/class_scores.h"
#include "phalanx/tasks/classification.h"
#include "phalanx/tasks/classify_family.h"
#include "phalanx/tasks/classify_options.h"

namespace phalanx {
namespace {

constexpr const char* kSource = "standard input";
// The most lines that are encoded and computed together.
constexpr std::size_t kLinesAtOnce = 512;

struct CommandOptions {
  ModelFlags model;
  bool probabilities = false;
  bool json = false;
};

void add_flags(FlagSet& flags, CommandOptions& o) {
  o.model.add_load_to(flags);
  flags.add({.name = "--probabilities",
             .help = "Behind the label the probability of each class, in the labels' order, with "
                     "tabs between them"},
            &o.probabilities);
  o.model.add_others_to(flags);
  flags.add({.name = "--json",
             .help = "A JSON document for each line: the label, and the probabilities by label",
             .excludes = "--probabilities"},
            &o.json);
  flags.add_example("phalanx classify --load RUN < lines.txt > labels.txt",
                    "the label of each line: a text, or two with a tab between them");
  flags.add_example("phalanx classify --load RUN --json < lines.txt | jq .probabilities",
                    "how sure it is");
}

std::vector<double> softmax(const std::vector<float>& logits) {
  std::vector<double> result;
  for (std::size_t c = 0; c < logits.size(); ++c) {
    result.push_back(std::exp(-cross_entropy_of(logits, static_cast<std::int32_t>(c))));
  }
  return result;
}

// Classifies lines and collects remarks about all of them.
class LineClassifier {
 public:
  LineClassifier(CommandIo& io, const TrainedModel& trained, const CommandOptions& options)
      : io_(io),
        options_(options),
        tokenizer_(*trained.tokenizer),
        special_(tokenizer_),
        classify_(ClassifyOptions::from_text(trained.config.family_options)),
        names_(classify_.label_names()),
        sequence_(trained.config.data.seq_length),
        model_(trained.config, classifier_config(trained.config, tokenizer_.vocab_size()),
               tokenizer_, trained.checkpoint, trained.device) {}

  // The rows for these lines. DataError names the first malformed line, after the rows before it
  // have been printed.
  void print(const std::vector<std::string>& lines) {
    std::vector<EncodedPair> pairs;
    std::exception_ptr fault;
    for (const std::string& line : lines) {
      try {
        pairs.push_back(encode(line));
      } catch (const DataError&) {
        fault = std::current_exception();
        break;
      }
    }
    std::string text;
    for (const std::vector<float>& logits : model_.logits(pairs)) text += row_of(logits);
    io_.write(text);
    if (fault) std::rethrow_exception(fault);
  }

  std::int64_t lines() const { return lines_; }
  void tell_end() const { tell_cut(kSource, cut_, lines_, sequence_); }

 private:
  EncodedPair encode(const std::string& line) {
    const std::string source = fmt::format("{}, line {}", kSource, ++lines_);
    check_utf8(line, source);
    const UnlabelledText text = unlabelled_text(line, classify_.texts(), source);
    const auto ids = [&](const std::string& part) {
      try {
        return tokenizer_.encode(part);
      } catch (const DataError& error) {
        throw DataError("{}: {}", source, error.what());
      }
    };
    EncodedPair pair = encode_pair(ids(text.a), ids(text.b), text.has_b, special_, sequence_);
    if (pair.is_cut) ++cut_;
    return pair;
  }

  std::string row_of(const std::vector<float>& logits) const {
    const std::string& label = names_[static_cast<std::size_t>(class_of(logits))];
    if (!options_.json && !options_.probabilities) return label + "\n";
    const std::vector<double> probabilities = softmax(logits);
    if (options_.json) {
      nlohmann::ordered_json json = {{"label", label}};
      for (std::size_t c = 0; c < names_.size(); ++c) {
        json["probabilities"][names_[c]] = probabilities[c];
      }
      return json_line(json);
    }
    std::string row = label;
    for (const double probability : probabilities) row += fmt::format("\t{:.6f}", probability);
    return row + "\n";
  }

  CommandIo& io_;
  const CommandOptions& options_;
  const Tokenizer& tokenizer_;
  ClassificationTokens special_;
  ClassifyOptions classify_;
  std::vector<std::string> names_;
  std::int64_t sequence_;
  Classifier model_;
  std::int64_t lines_ = 0, cut_ = 0;
};

}  // namespace

int run_classify(CommandIo& io, const Arguments& arguments) {
  CommandOptions options;
  FlagSet flags("phalanx classify",
                "Which class each line of standard input is of, as a classifier that `phalanx "
                "finetune classify` has trained says it.");
  add_flags(flags, options);
  flags.parse(arguments);
  const TrainedModel trained = options.model.open_classifier();
  LineClassifier classifier(io, trained, options);
  InputLines input(io);
  for (auto lines = input.next(kLinesAtOnce); !lines.empty(); lines = input.next(kLinesAtOnce)) {
    classifier.print(lines);
  }
  if (classifier.lines() == 0) log_warning("{} has no lines: nothing is classified", kSource);
  classifier.tell_end();
  return 0;
}

}  // namespace phalanx
