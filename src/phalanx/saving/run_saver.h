#pragma once
// Saves a run, and decides what it means when that fails: the disk may be full for an hour, and the
// run is worth more than one of its checkpoints.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/step_timers.h"
#include "phalanx/checkpoint/background_verifier.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/metrics/run_sink.h"
#include "phalanx/rank/rank.h"
#include "phalanx/saving/data_digests.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/saving/run_directory.h"
#include "phalanx/saving/run_inputs.h"
#include "phalanx/saving/save_target.h"

namespace phalanx {

// What all checkpoints of a run have in common. The references must outlive it.
struct SavedRun {
  const TrainConfig& config;
  const RunIdentity& identity;
  const RunInputs& inputs;
  const ParameterSchedule& schedule;
  std::string_view products;             // the family of matrix products
  const DataDigests* digests = nullptr;  // null: none are taken
};

class RunSaver {
 public:
  enum class Occasion {
    kPeriodic,  // a failure warns, the third in a row ends the run
    kLeaving,   // a failure ends the run
  };
  // After this many failures there is no hope that the next attempt succeeds.
  static constexpr int kFailuresInARow = 3;

  // How the rest of the run hears of it.
  struct Listeners {
    std::function<void(const RunNote&)> note;
    StepTimers& timers;
    // The timer of all ranks, asked by all of them after a checkpoint was saved.
    std::function<std::vector<TimerRow>()> times;
  };
  // Saves to one target. The rank must outlive the saver.
  RunSaver(SavedRun run, SaveTarget target, Rank& rank, Listeners listeners);

  // DIRECTORY/iter_NNNNNNN, durably, and removes what the target does not keep; nothing without a
  // directory or where the iteration is saved. All ranks at the same time; the first one writes,
  // and all of them learn whether it succeeded. Where a failure ends the run: IoError, naming the
  // reason and the last good checkpoint; DirectoryLostError at once where the directory is not this
  // run's any more.
  void save(const RunState& state, Occasion occasion);

  // Of this state, without what is written: tensors, parts, copies.
  Manifest manifest_of(const RunState& state) const;

 private:
  // The reason where it failed; empty otherwise, and on all ranks but the first.
  std::string try_to_save(const RunState& state);
  // The same, where other ranks `serve` the first one, which is to `save`.
  std::string save_on_first(const std::function<void()>& serve,
                            const std::function<void(const SaveOptions&)>& save,
                            const std::function<void()>& give_up);
  // The reason where it failed on any rank; only the first one knows the text.
  std::optional<std::string> save_on_all(const RunState& state);
  void verify(Occasion occasion);

  const SavedRun run_;
  const SaveTarget target_;
  Rank& rank_;
  const Listeners listeners_;
  std::int64_t saved_iteration_;  // -1: none
  std::int64_t saves_ = 0;        // begun, with parts
  int failures_ = 0;              // in a row
  // Of the first rank; empty where nothing is read back.
  std::optional<BackgroundVerifier> verifier_;
};

}  // namespace phalanx
