#include "phalanx/tasks/labelled_texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/tasks/unicode_text.h"

namespace phalanx {
namespace {

using Row = std::vector<std::string_view>;

constexpr std::string_view kMnliLabels[] = {"contradiction", "entailment", "neutral"};

// In quotes, a word's begin and end can be seen.
std::string in_quotes(std::string_view word) { return fmt::format("\"{}\"", word); }

std::string in_quotes(std::span<const std::string_view> words) {
  std::string list;
  for (const auto word : words) list += (list.empty() ? "" : ", ") + in_quotes(word);
  return list;
}

// A word as on a command line.
std::string as_typed(std::string_view word) {
  return word.find_first_of(" \t") == std::string_view::npos ? std::string(word) : in_quotes(word);
}

Row columns_of(std::string_view line) {
  Row row;
  while (true) {
    const std::size_t end = line.find('\t');
    row.push_back(strip(line.substr(0, end)));
    if (end == std::string_view::npos) return row;
    line.remove_prefix(end + 1);
  }
}

// Lines as Python reads them: they end with \n, \r\n or \r.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  std::optional<std::string_view> next() {
    if (text_.empty()) return {};
    const std::size_t end = std::min(text_.find_first_of("\r\n"), text_.size());
    const std::string_view line = text_.substr(0, end);
    const std::size_t behind = text_.substr(end).starts_with("\r\n") ? 2 : 1;
    text_.remove_prefix(std::min(end + behind, text_.size()));
    ++number_;
    return line;
  }
  std::int64_t number() const { return number_; }

 private:
  std::string_view text_;
  std::int64_t number_ = 0;
};

// Reads one file.
class Reader {
 public:
  Reader(std::string text, const std::string& source, const TableOptions& options,
         std::int64_t classes)
      : options_(options), classes_(classes), text_(std::move(text)), lines_(text_) {
    result_.path = source;
  }

  LabelledTexts read() {
    switch (options_.kind) {
      case TableKind::kMnli:
        read_mnli();
        break;
      case TableKind::kQqp:
        read_qqp();
        break;
      case TableKind::kPlain:
        read_plain();
    }
    if (!unknown_labels_.empty()) refuse_labels();
    if (result_.texts.empty()) throw DataError("{}: no labelled texts", result_.path);
    return std::move(result_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw DataError("{}, line {}: {}", result_.path, lines_.number(),
                    fmt::format(format, std::forward<Args>(args)...));
  }

  Row header() {
    const auto line = lines_.next();
    return line ? columns_of(strip(*line)) : Row{};
  }

  void add(std::string_view a, std::string_view b, std::int32_t label) {
    result_.texts.push_back({clean_text(a), clean_text(b), label, lines_.number()});
  }
  void skip() {
    if (result_.skipped++ == 0) result_.first_skipped = lines_.number();
  }

  void check_id(std::string_view id) const {
    const auto number = parse_number<std::int64_t>(id);
    if (!number || *number < 0) refuse("the first column is {}, not an id", id);
  }

  void read_mnli() {
    constexpr std::size_t kTextA = 8, kTextB = 9;
    result_.has_pairs = true;
    const bool is_test = header().size() == kTextB + 1;
    result_.has_labels = !is_test;
    while (const auto line = lines_.next()) {
      const Row row = columns_of(strip(*line));
      if (row.size() <= kTextB) refuse("{} columns; MNLI has 10 or more", row.size());
      check_id(row[0]);
      if (row[kTextA].empty() || row[kTextB].empty()) refuse("an empty text");
      const auto* const label = is_test ? kMnliLabels : std::ranges::find(kMnliLabels, row.back());
      if (label == std::end(kMnliLabels)) {
        refuse("the label, the last of {} columns, is {}: it must be one of {}", row.size(),
               in_quotes(row.back()), in_quotes(kMnliLabels));
      }
      add(row[kTextA], row[kTextB], static_cast<std::int32_t>(label - kMnliLabels));
    }
  }

  void read_qqp() {
    constexpr std::size_t kColumns = 6, kTestColumns = 3;
    result_.has_pairs = true;
    const std::size_t columns = header().size();
    const bool is_test = columns == kTestColumns;
    result_.has_labels = !is_test;
    if (!is_test && columns != kColumns) {
      throw DataError("{}: the header has {} columns; QQP has 6, and 3 in a test file",
                      result_.path, columns);
    }
    while (const auto line = lines_.next()) {
      const Row row = columns_of(strip(*line));
      if (is_test && row.size() != kTestColumns) refuse("{} columns, not 3", row.size());
      const std::size_t a = is_test ? 1 : 3;
      if (row.size() != columns || row[a].empty() || row[a + 1].empty()) {
        if (is_test) refuse("an empty text");
        skip();
        continue;
      }
      check_id(row[0]);
      const auto label = is_test ? 0 : parse_number<std::int64_t>(row[5]);
      if (!label || *label < 0 || *label > 1) {
        refuse("the label, the last of {} columns, is {}: it must be 0 or 1", row.size(),
               in_quotes(row[5]));
      }
      add(row[a], row[a + 1], static_cast<std::int32_t>(*label));
    }
  }

  void read_plain() {
    const std::vector<std::string>& texts = options_.text_columns;
    PHALANX_CHECK(texts.size() == 1 || texts.size() == 2, "{} text columns", texts.size());
    result_.has_pairs = texts.size() == 2;
    const auto is_name = [](const std::string& column) {
      return !parse_number<std::int64_t>(column);
    };
    Row names;
    if (options_.has_header || is_name(options_.label_column) ||
        std::ranges::any_of(texts, is_name)) {
      if (const auto line = lines_.next()) names = columns_of(*line);
    }
    while (const auto line = lines_.next()) {
      if (strip(*line).empty()) {
        if (result_.blank++ == 0) result_.first_blank = lines_.number();
        continue;
      }
      const Row row = columns_of(*line);
      const std::size_t place = place_of(texts[0], names, row);
      const std::size_t place_of_label = place_of(options_.label_column, names, row);
      check_place(place, texts[0], place_of_label, row);
      std::string_view b;
      if (result_.has_pairs) {
        const std::size_t place_of_b = place_of(texts[1], names, row);
        check_place(place_of_b, texts[1], place_of_label, row);
        b = row[place_of_b];
      }
      check_width(row, names);
      if (row[place].empty() || (result_.has_pairs && b.empty())) refuse("an empty text");
      add(row[place], b, label_of(row, place_of_label));
    }
  }

  // A short row may end before its label.
  void check_place(std::size_t text, const std::string& column, std::size_t label,
                   const Row& row) const {
    if (text != label) return;
    refuse("{} column{}: the text's (--text-columns {}) would be the label's (--label-column {})",
           row.size(), row.size() == 1 ? "" : "s", column, options_.label_column);
  }

  // One tab too many or too few moves texts and labels to other columns.
  void check_width(const Row& row, const Row& names) {
    if (width_ == 0) {
      width_ = names.empty() ? row.size() : names.size();
      width_line_ = names.empty() ? lines_.number() : 1;
    }
    if (row.size() == width_) return;
    refuse(
        "{} columns, but line {} has {}: all rows must have as many, with a tab between each two",
        row.size(), width_line_, width_);
  }

  std::size_t place_of(const std::string& column, const Row& names, const Row& row) const {
    const auto count = std::ssize(row);
    if (const auto number = parse_number<std::int64_t>(column)) {
      const std::int64_t place = *number < 0 ? count + *number : *number;
      if (place < 0 || place >= count) {
        refuse("{} columns, the first is 0: there is no column {}", count, column);
      }
      return static_cast<std::size_t>(place);
    }
    const auto place = std::ranges::find(names, std::string_view(column)) - names.begin();
    if (place == std::ssize(names)) {
      throw ConfigError("{}: no column is called {}; the header has {}", result_.path, column,
                        fmt::join(names, ", "));
    }
    if (place >= count) refuse("{} columns; the header has {}", count, names.size());
    return static_cast<std::size_t>(place);
  }

  std::int32_t label_of(const Row& row, std::size_t column) {
    const std::string_view word = row[column];
    if (!options_.labels.empty()) {
      const auto place = std::ranges::find(options_.labels, word) - options_.labels.begin();
      if (place == std::ssize(options_.labels)) {
        const std::vector<std::string_view> labels(options_.labels.begin(), options_.labels.end());
        refuse(
            "the label is read from column {} of {} (the first is 0, tabs stand between them), and "
            "{} is none of {}: give --label-column if another one has it, --labels if there are "
            "other labels",
            column, row.size(), in_quotes(word), in_quotes(labels));
      }
      return static_cast<std::int32_t>(place);
    }
    const auto number = parse_number<std::int64_t>(word);
    if (!number) {
      unknown_labels_.emplace(word);
      return 0;
    }
    if (*number < 0 || *number >= classes_) {
      refuse("the label {} is not below the number of classes, {}", word, classes_);
    }
    return static_cast<std::int32_t>(*number);
  }

  // The message has all words, up to a limit, so that the user can name them.
  [[noreturn]] void refuse_labels() const {
    constexpr std::size_t kMost = 10;
    std::string words;
    std::size_t count = 0;
    for (const std::string& word : unknown_labels_) {
      words += ' ' + (count++ < kMost ? as_typed(word) : "...");
      if (count > kMost) break;
    }
    throw DataError(
        "{}: labels are words: name them in their order, --labels{} (or give --label-column, if "
        "these are no labels)",
        result_.path, words);
  }

  const TableOptions& options_;
  std::int64_t classes_;
  std::string text_;
  Lines lines_;
  LabelledTexts result_;
  std::set<std::string> unknown_labels_;
  // The number of columns of the header, or else of the first row.
  std::size_t width_ = 0;
  std::int64_t width_line_ = 0;
};

}  // namespace

std::int64_t classes_of(TableKind kind) {
  switch (kind) {
    case TableKind::kMnli:
      return std::ssize(kMnliLabels);
    case TableKind::kQqp:
      return 2;
    case TableKind::kPlain:
      break;
  }
  return 0;
}

std::vector<std::string> label_words(TableKind kind) {
  if (kind != TableKind::kMnli) return {};
  return {std::begin(kMnliLabels), std::end(kMnliLabels)};
}

LabelledTexts parse_labelled_texts(std::string text, const std::string& source,
                                   const TableOptions& options, std::int64_t classes) {
  return Reader(std::move(text), source, options, classes).read();
}

LabelledTexts read_labelled_texts(const std::string& path, const TableOptions& options,
                                  std::int64_t classes) {
  return parse_labelled_texts(read_text_file(path), path, options, classes);
}

UnlabelledText unlabelled_text(std::string_view line, int texts, std::string_view source) {
  const Row row = columns_of(line);
  if (strip(line).empty()) throw DataError("{}: a blank line: there is no text", source);
  const std::size_t most = texts == 0 ? 2 : static_cast<std::size_t>(texts);
  if (row.size() > most || (texts != 0 && row.size() < most)) {
    throw DataError("{}: {} column{}; a row is {}, without a label", source, row.size(),
                    row.size() == 1 ? "" : "s",
                    texts == 1   ? "one text"
                    : texts == 2 ? "two texts with a tab between them"
                                 : "one text, or two with a tab between them");
  }
  UnlabelledText result{.a = clean_text(row[0]), .b = {}, .has_b = row.size() == 2};
  if (result.has_b) result.b = clean_text(row[1]);
  if (result.a.empty() || (result.has_b && result.b.empty())) {
    throw DataError("{}: an empty text", source);
  }
  return result;
}

std::string clean_text(std::string_view text) {
  std::string result = collapse_spaces(text);
  constexpr int kTimes = 3;  // " . . ." takes several times
  for (int i = 0; i < kTimes; ++i) result = replace_all(result, " . ", ". ");
  return result;
}

}  // namespace phalanx
