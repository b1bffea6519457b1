#pragma once
// The tags of a run that TensorBoard shows. They are Megatron's, each over iterations, most of them
// also over samples (" vs samples").

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/metrics/run_sink.h"
#include "phalanx/metrics/tensorboard_file.h"

namespace phalanx {

// The flags --tensorboard-... and --log-...-to-tensorboard.
struct TensorBoardOptions {
  std::filesystem::path directory;
  std::int64_t interval = 1;  // iterations
  std::int64_t queue_size = 1000;
  bool timers = false;
  bool throughput = false;  // with the timers: --log-throughput
  bool batch_size = false;
  bool memory = false;
  bool world_size = false;
  bool validation_perplexity = false;
  bool learning_rate = true;
  bool loss_scale = true;
};

class TensorBoardSink final : public RunSink {
 public:
  explicit TensorBoardSink(TensorBoardOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "TensorBoard"; }
  void begin(const RunBegin& begin) override;
  void iteration(const IterationReport& report) override;
  void evaluation(const EvaluationReport& report) override;
  void end(const RunEnding& ending) override;

 private:
  struct Place {
    std::int64_t iteration = 0;
    std::int64_t samples = 0;
  };
  void put(std::string_view tag, double value, const Place& at);
  void put_iteration(const IterationReport& report);
  void put_expert_loads(const ExpertLoads& loads, const Place& at);
  void put_times(const IterationReport& report);

  TensorBoardOptions options_;
  std::optional<TensorBoardFile> file_;
  double world_size_ = 1;
  // Since the last log line.
  double seconds_ = 0;
  std::int64_t iterations_ = 0;
};

}  // namespace phalanx
