// Training runs: what they tell, and how they are asked to stop.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/cli/family_commands.h"
#include "phalanx/cli/training_run.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/library/answer.h"
#include "phalanx/library/request.h"
#include "phalanx/metrics/metrics_file.h"
#include "phalanx/metrics/run_events.h"

struct phalanx_stop {
  std::atomic<bool> is_requested{false};
};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may ask, too");

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

// Where a run is.
struct RunPlace {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
};

// Tells the caller's function what the first rank tells.
class EventSink final : public RunSink {
 public:
  EventSink(phalanx_event_function event, void* data, std::atomic<bool>& stops, RunPlace& place)
      : event_(event), data_(data), stops_(stops), place_(place) {}

  std::string name() const override { return "the program's function"; }
  void begin(const RunBegin& begin) override {
    peak_flops_ = begin.peak_flops;
    place_ = {begin.iteration, begin.consumed_samples};
    tell("begin", begin_line(begin, now()));
  }
  void iteration(const IterationReport& report) override {
    tell("iteration", to_json_line(report, peak_flops_));
  }
  void evaluation(const EvaluationReport& report) override {
    tell("evaluation", to_json_line(report));
  }
  void note(const RunNote& note) override {
    if (!event_of(note.kind).empty()) tell("note", note_line(note, now()));
  }
  void end(const RunEnding& ending) override {
    place_ = {ending.iteration, ending.consumed_samples};
    tell("end", end_line(ending, now()));
  }

 private:
  static EventTime now() { return std::chrono::system_clock::now(); }
  void tell(const char* type, const std::string& text) {
    if (event_ != nullptr && event_(type, text.c_str(), data_) != 0) stops_ = true;
  }

  phalanx_event_function event_;
  void* data_;
  std::atomic<bool>& stops_;
  RunPlace& place_;
  double peak_flops_ = 0;
};

std::string_view name_of(RunEnd end) {
  switch (end) {
    case RunEnd::kFinished:
      return name_of(RunEnding::Outcome::kFinished);
    case RunEnd::kPreempted:
      return name_of(RunEnding::Outcome::kPreempted);
    case RunEnd::kStopped:
      break;
  }
  return name_of(RunEnding::Outcome::kStopped);
}

std::string answer_of_run(Request& request, phalanx_event_function event, void* data,
                          const phalanx_stop* stop) {
  const Arguments words = request.words();
  request.expect_no_other();
  TrainConfig config;
  std::unique_ptr<FlagSet> flags;
  try {
    flags = training_flags(named_family("phalanx pretrain", words), config);
  } catch (const HelpRequested&) {
    throw UsageError("--help: a run has no help: the command help has");
  }
  if (flags->prints_yaml()) {
    throw UsageError("--print-yaml: a run prints nothing: give it to the command pretrain");
  }
  std::atomic<bool> stops{false};
  RunPlace place;
  const StopToken asked = [&] {
    return stops || (stop != nullptr && stop->is_requested) ? kAskedByProgram : 0;
  };
  const RunEnd end = train_on_threads(*flags, config, asked,
                                      std::make_unique<EventSink>(event, data, stops, place));
  return Json({{"end", name_of(end)},
               {"iteration", place.iteration},
               {"consumed_samples", place.consumed_samples}})
      .dump();
}

}  // namespace
}  // namespace phalanx

extern "C" {

phalanx_stop* phalanx_stop_new(void) { return new (std::nothrow) phalanx_stop; }

void phalanx_stop_request(phalanx_stop* stop) {
  if (stop != nullptr) stop->is_requested = true;
}

void phalanx_stop_free(phalanx_stop* stop) { delete stop; }

phalanx_answer* phalanx_run(const char* request, phalanx_event_function event, void* data,
                            phalanx_stop* stop) {
  return phalanx::answer_apart([&] {
    phalanx::Request asked(request);
    return phalanx::answer_of_run(asked, event, data, stop);
  });
}

}  // extern "C"
