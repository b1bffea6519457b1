#pragma once
// The log: a description of the run, Megatron's training and evaluation lines, and notes of what
// happened. training_log.h and timing_log.h make the lines.

#include <cstdint>
#include <string>
#include <utility>

#include "phalanx/metrics/run_sink.h"
#include "phalanx/metrics/training_log.h"

namespace phalanx {

struct LogOptions {
  bool throughput = false;               // --log-throughput
  std::string timing_option = "minmax";  // --timing-log-option
  std::int64_t memory_interval = 0;      // --log-memory-interval; 0: only after the first iteration
};

class LogSink final : public RunSink {
 public:
  explicit LogSink(LogOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "the log"; }
  void begin(const RunBegin& begin) override;
  void iteration(const IterationReport& report) override;
  void evaluation(const EvaluationReport& report) override;
  void answers(const AnswersReport& report) override;
  void note(const RunNote& note) override;

 private:
  void print_line(const IterationReport& report);
  void print_memory(const IterationReport& report);

  LogOptions options_;
  RunBegin begin_;
  bool memory_is_printed_ = false;
  LogInterval interval_;
};

}  // namespace phalanx
