#pragma once
// The reports of a training run, and the interface of its sinks, which show or keep the reports:
// the log, the progress bar, metrics.jsonl and others. The run's first rank makes the reports and
// does not know which sinks there are. train/run_log.h fills them in.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/named_loss.h"
#include "phalanx/metrics/iteration_report.h"

namespace phalanx {

// The memory of a rank's arenas, which are allocated once.
struct ArenaBytes {
  int rank = 0;
  std::int64_t bytes = 0;
};

struct RunBegin {
  // Every flag that has an effect, with its value as text.
  std::vector<std::pair<std::string, std::string>> arguments;
  std::vector<std::string> lines;  // a description of the run for people
  std::int64_t iteration = 0;      // done so far
  std::int64_t consumed_samples = 0;
  std::int64_t last_iteration = 0;
  bool is_finished = false;  // only the last evaluation is made, for the second time
  std::int64_t world_size = 1;
  // Per second, of all hosts, measured: a rate that products can reach, of which MFU is the share;
  // and that of the instruction alone.
  double peak_flops = 0;
  double instruction_peak_flops = 0;
  // Of the first data-parallel rank for each place in the model.
  std::vector<ArenaBytes> arenas;
  // The first rank's planned memory: together all of its arenas.
  std::int64_t weight_and_optimizer_bytes = 0;
  std::int64_t activation_bytes = 0;
  // A JSON object: machine, data, layout, memory plan, schedule (start/run_facts.h); empty: none.
  std::string facts = {};
};

struct EvaluationReport {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::string split;     // "valid", "test"
  std::string set = {};  // the name of one of several validation sets
  std::string place;     // "iteration 100", "iteration 100 on validation set"
  std::vector<NamedLoss> losses;
  // "accuracy", "f1": shares from 0 to 1.
  std::vector<NamedLoss> scores = {};
};

// What the model answered, prompt by prompt (--answer-prompts).
struct AnswersReport {
  struct Answer {
    std::vector<std::pair<std::string, std::string>> messages;  // role, content
    std::string expected;
    std::string text;
    bool is_ended = false;  // else it is cut
  };
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::vector<Answer> answers;
};

// Something that happened. What has a text is printed.
struct RunNote {
  enum class Kind {
    kSaving,
    kSaved,
    kSaveFailed,
    kBatchSize,   // the global batch changes
    kDisk,        // how much steps read and write
    kPrediction,  // what steps took, beside what was predicted
    kSignal,      // a signal asks the run to stop
    kExit,        // --exit-interval, --exit-duration-in-mins
    kTrained,     // the last iteration is done
    kWarning,     // anything else
  };
  Kind kind = Kind::kWarning;
  std::int64_t iteration = 0;
  std::string text;
  std::string event = {};  // the text for events.jsonl, if it is another than the log's
  std::string facts = {};  // a JSON object: more keys there; empty: none
  bool is_warning() const { return kind == Kind::kSaveFailed || kind == Kind::kWarning; }
};

struct RunEnding {
  enum class Outcome {
    kFinished,
    kPreempted,  // a signal came: the state is saved, or training had not begun
    kStopped,    // a signal came, and nothing is saved
    kFailed,
  };
  Outcome outcome = Outcome::kFinished;
  std::int64_t iteration = 0;
  std::string error;  // of one that failed
  // A JSON object: the timeline of the last step (start/run_facts.h); empty: none.
  std::string facts = {};
  bool save_is_lost = false;  // another directory has taken the place of --save
  std::int64_t consumed_samples = 0;
};

class RunSink {
 public:
  virtual ~RunSink() = default;
  // For the warning that the run goes on without it: "metrics".
  virtual std::string name() const = 0;
  // A sink opens its files here. An exception in any call detaches the sink.
  virtual void begin(const RunBegin& /*begin*/) {}
  virtual void iteration(const IterationReport& /*report*/) {}
  virtual void evaluation(const EvaluationReport& /*report*/) {}
  virtual void answers(const AnswersReport& /*report*/) {}
  virtual void note(const RunNote& /*note*/) {}
  virtual void end(const RunEnding& /*ending*/) {}
  // Called before lines are printed.
  virtual void pause() {}
};

// All sinks of a run, which are called in their order. One that fails is named in a warning and is
// not called again: the run goes on.
class RunSinks {
 public:
  RunSinks() = default;
  explicit RunSinks(std::vector<std::unique_ptr<RunSink>> sinks) : sinks_(std::move(sinks)) {}

  void add(std::unique_ptr<RunSink> sink) { sinks_.push_back(std::move(sink)); }

  void begin(const RunBegin& begin);
  void iteration(const IterationReport& report);
  void evaluation(const EvaluationReport& report);
  void answers(const AnswersReport& report);
  void note(const RunNote& note);
  void end(const RunEnding& ending);
  void pause();

 private:
  void tell(const std::function<void(RunSink&)>& call);

  std::vector<std::unique_ptr<RunSink>> sinks_;
};

}  // namespace phalanx
