#pragma once
// metrics.jsonl: one JSON object for each training iteration or evaluation, for people's scripts.
// Numbers have the fewest digits that read back as the same value; losses are fp32 values, so runs
// with equal bits have equal bytes. A number that is not finite is null, as JSON has no other way.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/metrics/line_file.h"
#include "phalanx/metrics/run_sink.h"

namespace phalanx {

// The field of a loss: "lm_loss" for "lm loss".
std::string metrics_key(std::string name);
// One line without its newline. Utilisation is the share of `peak_flops` per second.
std::string to_json_line(const IterationReport& report, double peak_flops);
std::string to_json_line(const EvaluationReport& report);
// {"iteration", "consumed_samples", "eval": "answers", "answers": [{"messages", "expected",
// "answer", "ended"}]}.
std::string to_json_line(const AnswersReport& report);

inline constexpr std::string_view kAnswersSplit = "answers";       // "eval" of a line of answers
inline constexpr std::string_view kMetricsName = "metrics.jsonl";  // in the save directory

// The place in the file after which a run goes on.
struct MetricsPosition {
  std::int64_t iteration = 0;    // 0: a run from the start
  bool evaluates_again = false;  // the run repeats this iteration's evaluations
};
// The lines behind that place, which the run will write again, and a torn last line; empty where
// there is no file. DataError where a line that would stay is not a metrics line.
std::string metrics_after(const std::filesystem::path& path, const MetricsPosition& last);
// Removes these lines. OutputError where the file cannot be written.
void cut_metrics(const std::filesystem::path& path, const MetricsPosition& last);

// Writes SAVE/metrics.jsonl.
class MetricsSink final : public RunSink {
 public:
  explicit MetricsSink(std::filesystem::path path) : path_(std::move(path)) {}

  std::string name() const override { return "metrics"; }
  void begin(const RunBegin& begin) override;
  void iteration(const IterationReport& report) override;
  void evaluation(const EvaluationReport& report) override;
  void answers(const AnswersReport& report) override;

 private:
  std::filesystem::path path_;
  std::optional<LineFile> file_;
  double peak_flops_ = 0;
};

}  // namespace phalanx
