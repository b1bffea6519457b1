#include "phalanx/report/metrics_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/metrics/line_reader.h"
#include "phalanx/metrics/metrics_file.h"

namespace phalanx {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostRanges = 100;
constexpr std::size_t kMostEvaluations = 40;
constexpr std::size_t kMostPrompts = 20;
constexpr std::size_t kMostAnswers = 12;

constexpr std::array<std::string_view, kMetrics> kKeys = {"iteration",
                                                          "consumed_samples",
                                                          "learning_rate",
                                                          "grad_norm",
                                                          "loss_scale",
                                                          "elapsed_s",
                                                          "tokens_per_second",
                                                          "model_flops_per_second",
                                                          "mfu",
                                                          "hfu",
                                                          "waited_for_data_s",
                                                          "waited_for_messages_s",
                                                          "waited_for_files_s",
                                                          "saving_s",
                                                          "peak_bytes",
                                                          "rss_bytes",
                                                          "ppl",
                                                          "expert_load",
                                                          "expert_load_mean",
                                                          "expert_dropped"};

bool is_blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

// Reads a JSON object of plain values, as metrics lines are, without building a tree.
class FlatObject {
 public:
  explicit FlatObject(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool open() { return next('{'); }
  // After a member: whether another one follows, or the object ends.
  bool goes_on() { return next(','); }
  bool closes() {
    if (!next('}')) return false;
    skip_blanks();
    return at_ == end_;
  }
  // False also for a string with an escape.
  bool text(std::string_view& found) {
    if (!next('"')) return false;
    const char* const begin = at_;
    while (at_ != end_ && *at_ != '"' && *at_ != '\\') ++at_;
    if (at_ == end_ || *at_ == '\\') return false;
    found = {begin, static_cast<std::size_t>(at_ - begin)};
    ++at_;
    return true;
  }
  bool colon() { return next(':'); }
  bool is_text() {
    skip_blanks();
    return at_ != end_ && *at_ == '"';
  }
  // A number, or true (1), false (0), null (none).
  bool value(double& found) {
    skip_blanks();
    if (word("true")) return found = 1, true;
    if (word("false")) return found = 0, true;
    if (word("null")) return found = kNone, true;
    // from_chars() would accept infinities, which JSON has not.
    if (at_ == end_ || (*at_ != '-' && (*at_ < '0' || *at_ > '9'))) return false;
    const auto [behind, error] = std::from_chars(at_, end_, found);
    if (error == std::errc::result_out_of_range) found = kNone;
    if (error == std::errc::invalid_argument) return false;
    at_ = behind;
    return true;
  }

 private:
  void skip_blanks() {
    while (at_ != end_ && is_blank(*at_)) ++at_;
  }
  bool next(char letter) {
    skip_blanks();
    if (at_ == end_ || *at_ != letter) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view expected) {
    if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(expected)) {
      return false;
    }
    at_ += expected.size();
    return true;
  }

  const char* at_;
  const char* end_;
};

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The answers of a line, each with an iteration that is not known yet. Of anything else: none.
std::vector<AnsweredPrompt> answers_of(const nlohmann::json& line) {
  std::vector<AnsweredPrompt> all;
  const auto list = line.find("answers");
  if (list == line.end() || !list->is_array()) return all;
  for (const auto& json : *list) {
    if (!json.is_object()) continue;
    AnsweredPrompt one{.prompt = {}, .expected = text_of(json, "expected"), .answers = {}};
    const auto messages = json.find("messages");
    if (messages != json.end() && messages->is_array()) {
      for (const auto& message : *messages) {
        if (!message.is_object()) continue;
        one.prompt += (one.prompt.empty() ? "" : "\n") + text_of(message, "role") + ": " +
                      text_of(message, "content");
      }
    }
    one.answers.emplace_back(0, text_of(json, "answer"));
    all.push_back(std::move(one));
  }
  return all;
}

Series& series_of(std::vector<NamedSeries>& all, std::string_view name) {
  for (NamedSeries& one : all) {
    if (one.name == name) return one.series;
  }
  all.push_back({std::string(name), Series()});
  return all.back().series;
}

}  // namespace

std::string_view key_of(Metric metric) { return kKeys[static_cast<std::size_t>(metric)]; }

const MetricsReader::Field& MetricsReader::field_of(std::string_view key, std::size_t place) {
  if (place < fields_.size() && fields_[place].key == key) return fields_[place];
  if (place >= fields_.size()) fields_.resize(place + 1);
  Field field{.key = std::string(key)};
  const auto* const found = std::ranges::find(kKeys, key);
  if (found != kKeys.end()) field.metric = static_cast<Metric>(found - kKeys.begin());
  if (key == "step") field.metric = Metric::kIteration;
  field.is_loss = key.ends_with("loss");
  field.is_score = key == "accuracy" || key == "f1";
  fields_[place] = std::move(field);
  return fields_[place];
}

void MetricsReader::take(std::string_view key, std::size_t place, double value) {
  const Field& field = field_of(key, place);
  if (field.is_loss) {
    losses_.push_back({place, value});
  } else if (field.is_score) {
    scores_.push_back({place, value});
  } else if (field.metric != Metric::kCount) {
    values_[static_cast<std::size_t>(field.metric)] = value;
  } else if (key == "skipped") {
    is_skipped_ = value == 1;
  } else {
    others_.push_back({place, value});
  }
}

bool MetricsReader::read(std::string_view line) {
  if (!scan(line) && !scan_slowly(line)) return false;
  return finish_line();
}

void MetricsReader::begin_line() {
  values_.fill(kNone);
  losses_.clear();
  others_.clear();
  scores_.clear();
  split_.clear();
  answered_.clear();
  set_.clear();
  is_skipped_ = false;
}

bool MetricsReader::scan(std::string_view line) {
  begin_line();
  FlatObject object(line);
  if (!object.open()) return false;
  std::size_t place = 0;
  do {
    std::string_view key;
    if (!object.text(key) || !object.colon()) return false;
    if (object.is_text()) {
      std::string_view text;
      if (!object.text(text)) return false;
      if (key == "eval") split_ = text;
      if (key == "set") set_ = text;
      continue;
    }
    double value = 0;
    if (!object.value(value)) return false;
    take(key, place++, value);
  } while (object.goes_on());
  return object.closes();
}

// For lines with lists, objects or escapes, which are another program's.
bool MetricsReader::scan_slowly(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  begin_line();
  std::size_t place = 0;
  for (const auto& [key, value] : json.items()) {
    if (value.is_number()) take(key, place++, value.get<double>());
    if (value.is_boolean()) take(key, place++, value.get<bool>() ? 1 : 0);
    if (value.is_string() && key == "eval") split_ = value.get<std::string>();
    if (value.is_string() && key == "set") set_ = value.get<std::string>();
  }
  answered_ = answers_of(json);
  return true;
}

bool MetricsReader::finish_line() {
  const double number = value_of(Metric::kIteration);
  if (!(number >= 0 && number < 9e15)) return false;
  const auto iteration = static_cast<std::int64_t>(number);
  if (split_ == kAnswersSplit) {
    finish_answers(iteration);
    return true;
  }
  if (!split_.empty()) {
    finish_evaluation(iteration);
    return true;
  }
  if (metrics_.lines > 0 && iteration <= metrics_.last_iteration) return false;
  finish_training(iteration);
  return true;
}

void MetricsReader::finish_training(std::int64_t iteration) {
  const auto x = static_cast<double>(iteration);
  const double consumed = value_of(Metric::kConsumedSamples);
  if (consumed_before_ >= 0 && iteration == metrics_.last_iteration + 1) {
    metrics_.batch_sizes.add(x, consumed - consumed_before_);
  } else if (iteration == 1) {
    metrics_.batch_sizes.add(x, consumed);
  }
  consumed_before_ = consumed;
  if (metrics_.lines == 0) metrics_.first_iteration = iteration;
  metrics_.last_iteration = iteration;
  ++metrics_.lines;
  for (std::size_t i = 0; i < kMetrics; ++i) metrics_.metrics[i].add(x, values_[i]);
  const double tokens = value_of(Metric::kTokensPerSecond) * value_of(Metric::kSeconds);
  if (std::isfinite(tokens) && !is_skipped_) metrics_.tokens += tokens;
  for (const Number& loss : losses_) {
    series_of(metrics_.losses, fields_[loss.place].key).add(x, loss.value);
  }
  if (is_skipped_) count_skipped(iteration);
}

void MetricsReader::finish_answers(std::int64_t iteration) {
  auto& all = metrics_.answered;
  for (AnsweredPrompt& one : answered_) {
    auto known = std::ranges::find_if(all, [&](const AnsweredPrompt& other) {
      return other.prompt == one.prompt && other.expected == one.expected;
    });
    if (known == all.end()) {
      if (all.size() == kMostPrompts) continue;
      all.push_back({.prompt = one.prompt, .expected = one.expected, .answers = {}});
      known = all.end() - 1;
    }
    known->answers.emplace_back(iteration, std::move(one.answers.front().second));
    if (known->answers.size() <= kMostAnswers) continue;
    known->answers.pop_front();
    ++known->left_out;
  }
}

void MetricsReader::count_skipped(std::int64_t iteration) {
  ++metrics_.skipped;
  auto& ranges = metrics_.skipped_ranges;
  const double scale = value_of(Metric::kLossScale);
  const double known = std::isfinite(scale) ? scale : 0;
  if (!ranges.empty() && ranges.back().last == iteration - 1) {
    ranges.back().last = iteration;
    ranges.back().loss_scale = known;
  } else if (ranges.size() < kMostRanges) {
    ranges.push_back({iteration, iteration, known});
  }
}

void MetricsReader::finish_evaluation(std::int64_t iteration) {
  auto& all = split_ == "test" ? metrics_.test : metrics_.validation;
  const auto x = static_cast<double>(iteration);
  EvaluationNumbers evaluation{.iteration = iteration, .split = split_, .set = set_, .numbers = {}};
  const auto add = [&](std::vector<NamedSeries>& to, const Number& number) {
    const std::string name =
        set_.empty() ? fields_[number.place].key : fields_[number.place].key + " " + set_;
    Series& series = series_of(to, name);
    if (series.empty() || series.bins().back().x_last <= x) series.add(x, number.value);
  };
  const auto list = [&](const std::vector<Number>& numbers) {
    for (const Number& number : numbers) {
      evaluation.numbers.emplace_back(fields_[number.place].key, number.value);
    }
  };
  for (const Number& loss : losses_) add(all, loss);
  for (const Number& score : scores_) {
    if (split_ != "test") add(metrics_.scores, score);
  }
  list(losses_);
  list(scores_);
  list(others_);
  const double perplexity = value_of(Metric::kPerplexity);
  if (std::isfinite(perplexity)) {
    evaluation.numbers.emplace_back(key_of(Metric::kPerplexity), perplexity);
  }
  metrics_.evaluations.push_back(std::move(evaluation));
  if (metrics_.evaluations.size() <= kMostEvaluations) return;
  metrics_.evaluations.pop_front();
  ++metrics_.evaluations_left_out;
}

ReportMetrics read_metrics(const std::filesystem::path& path) {
  ReportMetrics metrics;
  MetricsReader reader(metrics);
  for_each_line(path, [&](std::string_view line, bool is_whole) {
    const bool is_blank_line = std::ranges::all_of(line, is_blank);
    if (is_blank_line || reader.read(line) || !is_whole) return;
    ++metrics.unusable;
  });
  return metrics;
}

}  // namespace phalanx
