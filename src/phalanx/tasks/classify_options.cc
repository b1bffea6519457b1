#include "phalanx/tasks/classify_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/data/blended_source.h"
#include "phalanx/data/shuffled_epochs.h"
#include "phalanx/flags/model_arguments.h"
#include "phalanx/tasks/classification_samples.h"

namespace phalanx {
namespace {

TableKind kind_of_format(const std::string& format) {
  if (format == "mnli") return TableKind::kMnli;
  if (format == "qqp") return TableKind::kQqp;
  if (format == "plain") return TableKind::kPlain;
  throw ConfigError("--table-format {}: plain, mnli or qqp", format);
}

std::int64_t integer_of(const std::string& flag, const std::string& text) {
  const auto value = parse_number<std::int64_t>(text);
  if (!value) throw ConfigError("{} {}: a number is expected", flag, text);
  return *value;
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
  if (is_plain && text_columns.size() > 2) {
    throw ConfigError("--text-columns: {} columns; give one or two", text_columns.size());
  }
  for (auto word = labels.begin(); word != labels.end(); ++word) {
    if (std::find(labels.begin(), word, *word) == word) continue;
    throw ConfigError("--labels: {} comes twice: a class has one word", *word);
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

std::vector<std::string> ClassifyOptions::label_names() const {
  std::vector<std::string> names = labels.empty() ? label_words(table().kind) : labels;
  for (auto c = std::ssize(names); c < classes(); ++c) names.push_back(std::to_string(c));
  return names;
}

int ClassifyOptions::texts() const {
  return table().kind == TableKind::kPlain ? static_cast<int>(text_columns.size()) : 2;
}

std::map<std::string, std::string> ClassifyOptions::to_text() const {
  return {{"--num-classes", std::to_string(num_classes)},
          {"--table-format", table_format},
          {"--text-columns", joined_words(text_columns)},
          {"--label-column", label_column},
          {"--header", header ? "true" : "false"},
          {"--labels", joined_words(labels)},
          {"--epochs", std::to_string(epochs)},
          {"--keep-last-batch", keep_last_batch ? "true" : "false"}};
}

ClassifyOptions ClassifyOptions::from_text(const std::map<std::string, std::string>& values) {
  ClassifyOptions options;
  options.text_columns.clear();
  const auto read = [&](const char* flag, const auto& take) {
    const auto found = values.find(flag);
    if (found != values.end()) take(found->second);
  };
  const auto read_text = [&](const char* flag, std::string& to) {
    read(flag, [&](const std::string& text) { to = text; });
  };
  const auto read_words = [&](const char* flag, std::vector<std::string>& to) {
    read(flag, [&](const std::string& text) { to = split_words(text); });
  };
  const auto read_integer = [&](const char* flag, std::int64_t& to) {
    read(flag, [&](const std::string& text) { to = integer_of(flag, text); });
  };
  const auto read_switch = [&](const char* flag, bool& to) {
    read(flag, [&](const std::string& text) { to = text == "true"; });
  };
  read_integer("--num-classes", options.num_classes);
  read_text("--table-format", options.table_format);
  read_words("--text-columns", options.text_columns);
  read_text("--label-column", options.label_column);
  read_switch("--header", options.header);
  read_words("--labels", options.labels);
  read_integer("--epochs", options.epochs);
  read_switch("--keep-last-batch", options.keep_last_batch);
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

void tell_left_out(const LabelledTexts& table) {
  if (table.skipped > 0) {
    log_warning(
        "{}: {} rows are left out, for they have too few columns or an empty text; the "
        "first is line {}",
        table.path, table.skipped, table.first_skipped);
  }
  if (table.blank > 0) {
    log_warning("{}: {} blank line{} left out; the first is line {}", table.path, table.blank,
                table.blank == 1 ? " is" : "s are", table.first_blank);
  }
}

void tell_cut(const std::string& source, std::int64_t cut, std::int64_t rows,
              std::int64_t sequence) {
  if (cut == 0) return;
  log_warning("{}: {} of {} rows have more than --seq-length {} tokens: their ends are left out",
              source, format_count(cut), format_count(rows), sequence);
}

namespace {

// Training on a single label would learn to predict it always.
void check_labels(const LabelledTexts& table, const std::string& paths,
                  const ClassifyOptions& options, TableUse use, Tell tell) {
  if (!table.has_labels) return;
  const std::vector<std::string> names = options.label_names();
  std::vector<bool> is_there(names.size());
  for (const LabelledText& text : table.texts)
    is_there[static_cast<std::size_t>(text.label)] = true;
  const auto classes = std::ranges::count(is_there, true);
  const std::string& only =
      names[static_cast<std::size_t>(std::ranges::find(is_there, true) - is_there.begin())];
  if (use == TableUse::kTraining && classes == 1) {
    throw DataError(
        "{}: all {} rows have the label {}: a classifier learns from two or more; look at "
        "--label-column {} and the file",
        paths, table.texts.size(), only, options.label_column);
  }
  if (tell == Tell::kNothing) return;
  if (classes == 1) {
    log_warning("{}: all {} rows have the label {}: accuracy and F1 say little", paths,
                table.texts.size(), only);
  } else if (use == TableUse::kTraining && classes < std::ssize(names)) {
    std::vector<std::string> absent;
    for (std::size_t c = 0; c < names.size(); ++c) {
      if (!is_there[c]) absent.push_back(names[c]);
    }
    log_warning("{}: no row has the label {}: it will not be learnt", paths,
                fmt::join(absent, ", or "));
  }
}

std::shared_ptr<const ClassificationSamples> samples_of(const LabelledTexts& texts,
                                                        const std::string& paths,
                                                        const Tokenizer& tokenizer,
                                                        std::int64_t sequence) {
  auto samples = std::make_shared<const ClassificationSamples>(texts, tokenizer, sequence);
  tell_cut(paths, samples->cut(), samples->size(), sequence);
  return samples;
}

}  // namespace

LabelledTexts read_tables(const std::vector<std::string>& paths, const ClassifyOptions& options,
                          TableUse use, Tell tell) {
  if (options.texts() == 0) throw ConfigError("--text-columns: no columns; give one or two");
  LabelledTexts all;
  for (const std::string& path : paths) {
    LabelledTexts one = read_labelled_texts(path, options.table(), options.classes());
    if (tell == Tell::kAll) {
      log_info("> {}: {} texts", path, format_count(std::ssize(one.texts)));
      tell_left_out(one);
    }
    all.path = path;
    all.has_pairs = one.has_pairs;
    all.has_labels = one.has_labels;
    all.texts.insert(all.texts.end(), std::make_move_iterator(one.texts.begin()),
                     std::make_move_iterator(one.texts.end()));
  }
  check_labels(all, fmt::format("{}", fmt::join(paths, ", ")), options, use, tell);
  return all;
}

std::shared_ptr<const SampleSource> training_source(const std::vector<std::string>& paths,
                                                    const ClassifyOptions& options,
                                                    const Tokenizer& tokenizer,
                                                    std::int64_t sequence, std::int64_t batch,
                                                    std::uint64_t seed) {
  std::shared_ptr<const SampleSource> source =
      samples_of(read_tables(paths, options, TableUse::kTraining, Tell::kAll),
                 fmt::format("{}", fmt::join(paths, ", ")), tokenizer, sequence);
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
  return samples_of(read_tables({path}, options, TableUse::kValidation, Tell::kAll), path,
                    tokenizer, sequence);
}

}  // namespace phalanx
