#pragma once
// What a training run tells while it goes on, and who shows or keeps it: the log, the progress bar,
// metrics.jsonl and others are sinks. The run's first rank tells; it knows none of them by name.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/named_loss.h"

namespace phalanx {

// One of Megatron's timers: seconds on every rank, an iteration's mean; 0 where it never ran.
struct TimerRow {
  std::string name;  // "forward-compute"
  std::vector<double> seconds;
};

// Bytes of a rank's arenas, which are allocated once.
struct ArenaBytes {
  int rank = 0;
  std::int64_t bytes = 0;
};

struct RunBegin {
  // Every flag that works, with its value as text.
  std::vector<std::pair<std::string, std::string>> arguments;
  std::vector<std::string> lines;  // for people: what the run is made of
  std::int64_t iteration = 0;      // done so far
  std::int64_t consumed_samples = 0;
  std::int64_t last_iteration = 0;
  bool is_finished = false;  // nothing is left but the last evaluation, which was made before
  std::int64_t world_size = 1;
  double peak_flops = 0;  // per second, of all hosts: measured
  // Of the first data-parallel rank of each place in the model.
  std::vector<ArenaBytes> arenas;
  // Of the first rank, as planned: together all of its arenas.
  std::int64_t weight_and_optimizer_bytes = 0;
  std::int64_t activation_bytes = 0;
  // A JSON object: machine, data, layout, memory plan, schedule (start/run_facts.h); empty: none.
  std::string facts = {};
};

// A training iteration that is done. Learning rate and loss scale are those after it.
struct IterationReport {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t global_batch_size = 0;
  std::int64_t tokens = 0;
  double model_flops = 0;     // that the model takes: the convention of performance tables
  double hardware_flops = 0;  // that all ranks compute, recomputation included
  std::vector<NamedLoss> losses;
  double learning_rate = 0;
  std::optional<double> decoupled_learning_rate;  // of the input and the output layer
  double loss_scale = 1;
  double grad_norm = 0;  // before clipping; NaN where none was computed
  std::optional<double> zeros_in_gradients;
  std::optional<double> parameters_norm;
  std::int64_t skipped_samples = 0;  // of the consumed: of iterations that were left out
  bool skipped = false;              // nothing was updated
  double seconds = 0;                // evaluation and checkpoints not counted
  // Of it, on the first rank: reading data, and waiting for messages of any group.
  double data_seconds = 0;
  double message_seconds = 0;
  std::optional<double> file_seconds = {};  // likewise, where states lie in files
  // Since the last iteration, beside it: saving.
  double saving_seconds = 0;
  // At --log-interval with --timing-log-level 1 or 2: since the last such.
  std::vector<TimerRow> times;
  std::int64_t peak_bytes = 0;  // the arenas' high-water mark, the most of any rank
  std::int64_t rss_bytes = 0;   // the process's resident peak
  bool is_logged = false;       // at --log-interval: lines are printed
};

struct EvaluationReport {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::string split;     // "valid", "test"
  std::string set = {};  // the name of one of several validation sets
  std::string place;     // "iteration 100", "iteration 100 on validation set"
  std::vector<NamedLoss> losses;
  // What is no loss, shares from 0 to 1: "accuracy", "f1".
  std::vector<NamedLoss> scores = {};
};

// Something that happened. What has a text is printed.
struct RunNote {
  enum class Kind {
    kSaving,
    kSaved,
    kSaveFailed,
    kBatchSize,  // the global batch is another from now on
    kDisk,       // what steps took of the disk
    kSignal,     // asks the run to stop
    kExit,       // --exit-interval, --exit-duration-in-mins
    kTrained,    // the last iteration is done
    kWarning,    // anything else
  };
  Kind kind = Kind::kWarning;
  std::int64_t iteration = 0;
  std::string text;
  std::string event = {};  // for events.jsonl, where the log's lines are none of its own
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
};

class RunSink {
 public:
  virtual ~RunSink() = default;
  // For people: the run goes on without "metrics".
  virtual std::string name() const = 0;
  // Whatever a sink needs from outside it asks for here. Any exception detaches the sink.
  virtual void begin(const RunBegin& /*begin*/) {}
  virtual void iteration(const IterationReport& /*report*/) {}
  virtual void evaluation(const EvaluationReport& /*report*/) {}
  virtual void note(const RunNote& /*note*/) {}
  virtual void end(const RunEnding& /*ending*/) {}
  // Lines are about to be printed.
  virtual void pause() {}
};

// All sinks of a run, told in their order. One that fails is named in a warning and told nothing
// more: the run is worth more than its diary.
class RunSinks {
 public:
  RunSinks() = default;
  explicit RunSinks(std::vector<std::unique_ptr<RunSink>> sinks) : sinks_(std::move(sinks)) {}

  void add(std::unique_ptr<RunSink> sink) { sinks_.push_back(std::move(sink)); }

  void begin(const RunBegin& begin);
  void iteration(const IterationReport& report);
  void evaluation(const EvaluationReport& report);
  void note(const RunNote& note);
  void end(const RunEnding& ending);
  void pause();

 private:
  void tell(const std::function<void(RunSink&)>& call);

  std::vector<std::unique_ptr<RunSink>> sinks_;
};

}  // namespace phalanx
