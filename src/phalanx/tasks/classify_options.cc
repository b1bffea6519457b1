#include "phalanx/tasks/classify_options.h"

#include <fmt/ranges.h>

#include <charconv>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/data/blended_source.h"
#include "phalanx/data/shuffled_epochs.h"
#include "phalanx/tasks/classification_samples.h"

namespace phalanx {
namespace {

// Between words of a list; no column or label has one, for columns stand between tabs.
constexpr char kBetween = '\t';

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, std::string(1, kBetween)));
}

std::vector<std::string> words_between(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(kBetween, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

TableKind kind_of_format(const std::string& format) {
  if (format == "mnli") return TableKind::kMnli;
  if (format == "qqp") return TableKind::kQqp;
  if (format == "plain") return TableKind::kPlain;
  throw ConfigError("--table-format {}: plain, mnli or qqp", format);
}

std::int64_t integer_of(const std::string& flag, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size()) {
    throw ConfigError("{} {}: a number is expected", flag, text);
  }
  return value;
}

}  // namespace

TableOptions ClassifyOptions::table() const {
  return {.kind = kind_of_format(table_format),
          .text_columns = text_columns,
          .label_column = label_column,
          .has_header = header,
          .labels = labels};
}

std::int64_t ClassifyOptions::classes() const {
  const TableKind kind = kind_of_format(table_format);
  const bool is_plain = kind == TableKind::kPlain;
  if (is_plain && (text_columns.empty() || text_columns.size() > 2)) {
    throw ConfigError("--text-columns: {} columns; give one or two", text_columns.size());
  }
  if (!is_plain && !labels.empty()) {
    throw ConfigError("--labels: --table-format {} has labels of its own", table_format);
  }
  const std::int64_t said = is_plain ? std::ssize(labels) : classes_of(kind);
  if (said > 0 && num_classes > 0 && num_classes != said) {
    throw ConfigError("--num-classes {}: there are {} labels", num_classes, said);
  }
  const std::int64_t classes = said > 0 ? said : num_classes;
  if (classes < 2) {
    throw ConfigError("give --num-classes, 2 or more, or the labels' words (--labels)");
  }
  return classes;
}

std::map<std::string, std::string> ClassifyOptions::to_text() const {
  return {{"--num-classes", std::to_string(num_classes)},
          {"--table-format", table_format},
          {"--text-columns", joined(text_columns)},
          {"--label-column", label_column},
          {"--header", header ? "true" : "false"},
          {"--labels", joined(labels)},
          {"--epochs", std::to_string(epochs)},
          {"--keep-last-batch", keep_last_batch ? "true" : "false"}};
}

ClassifyOptions ClassifyOptions::from_text(const std::map<std::string, std::string>& values) {
  const auto value = [&](const char* flag) {
    const auto found = values.find(flag);
    if (found == values.end()) throw ConfigError("{} is missing", flag);
    return found->second;
  };
  ClassifyOptions options;
  options.num_classes = integer_of("--num-classes", value("--num-classes"));
  options.table_format = value("--table-format");
  options.text_columns = words_between(value("--text-columns"));
  options.label_column = value("--label-column");
  options.header = value("--header") == "true";
  options.labels = words_between(value("--labels"));
  options.epochs = integer_of("--epochs", value("--epochs"));
  options.keep_last_batch = value("--keep-last-batch") == "true";
  return options;
}

std::int64_t batches_of_epoch(std::int64_t samples, std::int64_t batch, bool keep_last) {
  const std::int64_t batches = keep_last ? ceil_div(samples, batch) : samples / batch;
  if (batches == 0) {
    throw ConfigError(
        "{} samples do not fill a global batch of {}: give a smaller --global-batch-size, or "
        "--keep-last-batch",
        samples, batch);
  }
  return batches;
}

LabelledTexts read_tables(const std::vector<std::string>& paths, const ClassifyOptions& options) {
  LabelledTexts all;
  for (const std::string& path : paths) {
    LabelledTexts one = read_labelled_texts(path, options.table(), options.classes());
    log_info("> {}: {} texts", path, format_count(std::ssize(one.texts)));
    if (one.skipped > 0) {
      log_warning(
          "{}: {} rows are left out, for they have too few columns or an empty text; the "
          "first is line {}",
          path, one.skipped, one.first_skipped);
    }
    all.path = path;
    all.has_pairs = one.has_pairs;
    all.texts.insert(all.texts.end(), std::make_move_iterator(one.texts.begin()),
                     std::make_move_iterator(one.texts.end()));
  }
  return all;
}

std::shared_ptr<const SampleSource> training_source(const std::vector<std::string>& paths,
                                                    const ClassifyOptions& options,
                                                    const Tokenizer& tokenizer,
                                                    std::int64_t sequence, std::int64_t batch,
                                                    std::uint64_t seed) {
  std::shared_ptr<const SampleSource> source = std::make_shared<const ClassificationSamples>(
      read_tables(paths, options), tokenizer, sequence);
  const std::int64_t samples = source->size();
  const std::int64_t batches = batches_of_epoch(samples, batch, options.keep_last_batch);
  if (options.keep_last_batch) source = std::make_shared<const PaddedSource>(source, batch);
  return std::make_shared<const ShuffledEpochs>(source, samples, batches * batch,
                                                std::max<std::int64_t>(options.epochs, 1), seed);
}

std::shared_ptr<const SampleSource> validation_source(const std::string& path,
                                                      const ClassifyOptions& options,
                                                      const Tokenizer& tokenizer,
                                                      std::int64_t sequence) {
  return std::make_shared<const ClassificationSamples>(read_tables({path}, options), tokenizer,
                                                       sequence);
}

}  // namespace phalanx
