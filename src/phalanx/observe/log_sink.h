#pragma once
// The log: what the run is made of, Megatron's training and evaluation lines, and what happened.

#include "phalanx/observe/run_sink.h"
#include "phalanx/observe/training_log.h"

namespace phalanx {

class LogSink final : public RunSink {
 public:
  // `throughput`: --log-throughput.
  explicit LogSink(bool throughput) : throughput_(throughput) {}

  std::string name() const override { return "the log"; }
  void begin(const RunBegin& begin) override;
  void iteration(const IterationReport& report) override;
  void evaluation(const EvaluationReport& report) override;
  void note(const RunNote& note) override;

 private:
  void print_line(const IterationReport& report);

  bool throughput_;
  std::int64_t last_iteration_ = 0;
  double world_size_ = 1;
  double peak_flops_ = 0;
  LogInterval interval_;
};

}  // namespace phalanx
