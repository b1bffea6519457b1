#pragma once
// Saves a run, and decides what it means when that fails: the disk may be full for an hour, and the
// run is worth more than one of its checkpoints.

#include <cstdint>
#include <optional>
#include <string>

#include "phalanx/start/run_setup.h"
#include "phalanx/train/run_report.h"
#include "phalanx/train/run_times.h"

namespace phalanx {

class RunSaver {
 public:
  enum class Occasion {
    kPeriodic,  // a failure warns, the third in a row ends the run
    kLeaving,   // a failure ends the run
  };
  // What failed that often will not get better by itself.
  static constexpr int kFailuresInARow = 3;

  // All must outlive the saver.
  RunSaver(const RunSetup& setup, Rank& rank, RunTimes& times, RunReport& report);

  // SAVE/iter_NNNNNNN, durably, and removes all but the last --keep-last; nothing without --save or
  // where the iteration is saved. All ranks at the same time; the first one writes, and all of them
  // learn how it went. IoError, naming the reason and the last good checkpoint, where the run ends;
  // DirectoryLostError at once where --save is not the run's own any more.
  void save(const RunState& state, Occasion occasion);

 private:
  // The reason where it failed; empty otherwise, and on all ranks but the first.
  std::string try_to_save(const RunState& state);
  // The reason where it failed on any rank; what it is, the first one knows.
  std::optional<std::string> save_on_all(const RunState& state);
  Manifest manifest_of(const RunState& state) const;

  const RunSetup& setup_;
  Rank& rank_;
  RunTimes& times_;
  RunReport& report_;
  std::int64_t saved_iteration_ = -1;  // -1: none
  int failures_ = 0;                   // in a row
};

}  // namespace phalanx
