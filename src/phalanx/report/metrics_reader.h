#pragma once
// Reads a metrics.jsonl for a report, once from begin to end: curves in little memory, sums and
// counts. Any field may be missing, and lines may be torn or another program's.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/drawing/series.h"

namespace phalanx {

// The numbers of a training line, by their keys in the file.
enum class Metric : std::uint8_t {
  kIteration,
  kConsumedSamples,
  kLearningRate,
  kGradNorm,
  kLossScale,
  kSeconds,
  kTokensPerSecond,
  kFlopsPerSecond,
  kMfu,
  kHfu,
  kWaitedForData,
  kWaitedForMessages,
  kWaitedForFiles,
  kSaving,
  kPeakBytes,
  kResidentBytes,
  kPerplexity,
  kExpertLoad,
  kExpertLoadMean,
  kExpertDropped,
  kCount,  // how many there are
};
inline constexpr std::size_t kMetrics = static_cast<std::size_t>(Metric::kCount);
std::string_view key_of(Metric metric);

struct NamedSeries {
  std::string name;  // "lm_loss"
  Series series;
};

// Successive iterations that updated nothing.
struct SkippedRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  double loss_scale = 0;  // after the last of them; 0: not known
};

// An evaluation's line: all of its numbers by their keys, losses, "ppl" and others.
struct EvaluationNumbers {
  std::int64_t iteration = 0;
  std::string split;
  std::string set;
  std::vector<std::pair<std::string, double>> numbers;
};

// A conversation that the run answered while it was trained.
struct AnsweredPrompt {
  std::string prompt;  // its messages
  std::string expected;
  // (iteration, answer), the last ones.
  std::deque<std::pair<std::int64_t, std::string>> answers;
  std::int64_t left_out = 0;  // before these
};

struct ReportMetrics {
  std::array<Series, kMetrics> metrics;  // of training lines, by iteration
  std::vector<NamedSeries> losses;       // of training lines, in the order in which they appear
  // Evaluations of the split "valid": "lm_loss", or "lm_loss wiki" of one of several sets. An
  // iteration that is evaluated twice, at an interval and at the end of the run on other samples,
  // has two points.
  std::vector<NamedSeries> validation;
  std::vector<NamedSeries> test;
  // "accuracy" and "f1" of the split "valid".
  std::vector<NamedSeries> scores;
  std::deque<EvaluationNumbers> evaluations;  // the last ones
  std::int64_t evaluations_left_out = 0;      // before these
  std::vector<AnsweredPrompt> answered;       // the first ones
  Series batch_sizes;                         // samples by iteration

  std::int64_t lines = 0;  // of training
  // Lines that are not metrics lines, or whose iteration is not greater than the one before. A torn
  // last line does not count.
  std::int64_t unusable = 0;
  std::int64_t first_iteration = 0;
  std::int64_t last_iteration = 0;
  std::int64_t skipped = 0;
  std::vector<SkippedRange> skipped_ranges;  // the first ones
  double tokens = 0;                         // of training, without skipped iterations

  const Series& operator[](Metric metric) const {
    return metrics[static_cast<std::size_t>(metric)];
  }
};

// InputMissingError, IoError.
ReportMetrics read_metrics(const std::filesystem::path& path);

// Adds lines to `metrics`; for read_metrics() and tests.
class MetricsReader {
 public:
  explicit MetricsReader(ReportMetrics& metrics) : metrics_(metrics) {}
  // A line without its newline; false where it cannot be used.
  bool read(std::string_view line);

 private:
  struct Field {
    std::string key;
    Metric metric = Metric::kCount;  // kCount: none of them
    bool is_loss = false;
    bool is_score = false;
  };
  const Field& field_of(std::string_view key, std::size_t place);
  void begin_line();
  bool scan(std::string_view line);
  bool scan_slowly(std::string_view line);
  void take(std::string_view key, std::size_t place, double value);
  bool finish_line();
  void finish_training(std::int64_t iteration);
  void finish_answers(std::int64_t iteration);
  void finish_evaluation(std::int64_t iteration);
  void count_skipped(std::int64_t iteration);
  double value_of(Metric metric) const { return values_[static_cast<std::size_t>(metric)]; }

  ReportMetrics& metrics_;
  std::vector<Field> fields_;  // of the last line, by place: all lines have one order of keys
  std::array<double, kMetrics> values_{};
  struct Number {
    std::size_t place = 0;  // of its field
    double value = 0;
  };
  std::vector<Number> losses_, scores_;
  std::vector<Number> others_;            // of keys that are no metric of a training line
  std::string split_, set_;               // of an evaluation
  std::vector<AnsweredPrompt> answered_;  // each with one answer
  bool is_skipped_ = false;
  double consumed_before_ = -1;
};

}  // namespace phalanx
