#pragma once
// metrics.jsonl: one JSON object per training iteration or evaluation, for people's scripts.
// Numbers have the fewest digits that read back as the same value; losses are the fp32 values
// themselves, so two runs with equal bits have equal bytes. A number that is not finite is written
// as null, for JSON has no word for it.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/metrics/line_file.h"
#include "phalanx/metrics/run_sink.h"

namespace phalanx {

// The field of a loss: "lm_loss" of "lm loss".
std::string metrics_key(std::string name);
// One line without its newline. A loss has a field of its name with underscores: "lm_loss".
// Utilisation is that of `peak_flops` per second.
std::string to_json_line(const IterationReport& report, double peak_flops);
std::string to_json_line(const EvaluationReport& report);

inline constexpr std::string_view kMetricsName = "metrics.jsonl";  // in the save directory

// What a run goes on after.
struct MetricsPosition {
  std::int64_t iteration = 0;    // 0: a run from the start
  bool evaluates_again = false;  // also this iteration's evaluations will be made again
};
// What a run will write again when it goes on from there: the lines beyond, and a torn last line;
// empty where there is no file. DataError where a line that would stay is no metrics line.
std::string metrics_after(const std::filesystem::path& path, const MetricsPosition& last);
// Cuts them off. OutputError where the file cannot be written.
void cut_metrics(const std::filesystem::path& path, const MetricsPosition& last);

// The open file. Every write is one whole line, handed to the system at once.
class MetricsFile {
 public:
  // Appends; makes the file where it is not there. OutputError where it cannot be written.
  explicit MetricsFile(const std::filesystem::path& path) : file_(path) {}

  void write(const IterationReport& report, double peak_flops) {
    file_.write(to_json_line(report, peak_flops));
  }
  void write(const EvaluationReport& report) { file_.write(to_json_line(report)); }

 private:
  LineFile file_;
};

// SAVE/metrics.jsonl, as long as it can be written.
class MetricsSink final : public RunSink {
 public:
  explicit MetricsSink(std::filesystem::path path) : path_(std::move(path)) {}

  std::string name() const override { return "metrics"; }
  void begin(const RunBegin& begin) override;
  void iteration(const IterationReport& report) override;
  void evaluation(const EvaluationReport& report) override;

 private:
  std::filesystem::path path_;
  std::optional<MetricsFile> file_;
  double peak_flops_ = 0;
};

}  // namespace phalanx
