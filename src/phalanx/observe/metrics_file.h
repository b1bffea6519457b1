#pragma once
// metrics.jsonl: one JSON object per training iteration or evaluation, for people's scripts.
// Numbers have the fewest digits that read back as the same value; losses are the fp32 values
// themselves, so two runs with equal bits have equal bytes. A number that is not finite is written
// as null, for JSON has no word for it.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace phalanx {

struct IterationMetrics {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  float lm_loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;  // before clipping; NaN where none was computed
  double loss_scale = 1;
  bool skipped = false;
  double elapsed_s = 0;  // of this iteration
  double tokens_per_second = 0;
  double model_flops_per_second = 0;
  std::int64_t peak_bytes = 0;  // the arenas' high-water mark
  std::int64_t rss_bytes = 0;   // the process's resident peak
};

struct EvaluationMetrics {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::string_view eval;  // "valid" or "test"
  float lm_loss = 0;
};

// One line without its newline.
std::string to_json_line(const IterationMetrics& metrics);
std::string to_json_line(const EvaluationMetrics& metrics);

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
  explicit MetricsFile(const std::filesystem::path& path);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

  void write(const IterationMetrics& metrics) { write_line(to_json_line(metrics)); }
  void write(const EvaluationMetrics& metrics) { write_line(to_json_line(metrics)); }

 private:
  void write_line(std::string line);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace phalanx
