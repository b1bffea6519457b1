#pragma once
// The decisions with which a run begins. The first rank decides for all: it alone locks --save,
// chooses the checkpoint, names what will be saved and measures the processor. And all processes
// prove that they have the same flags and the same program.

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "phalanx/ops/measured_device.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/saving/run_directory.h"
#include "phalanx/start/rank_runner.h"

namespace phalanx {

// What the first rank tells the others. All else a process can compute from the flags and files.
struct RunDecisions {
  bool is_restarted = false;    // goes on from --save
  bool is_pretrained = false;   // begins from --pretrained-checkpoint
  std::string checkpoint;       // its directory; empty: the run begins anew, or
  std::string snapshot;         // with this epoch in memory
  std::string manifest_digest;  // of the checkpoint
  RunIdentity identity;         // of what is saved
  MeasuredDevice device;
  std::string nonce;  // lies in --save while the processes join
  std::string name;   // unique name of this start

  std::string to_text() const;
  static RunDecisions from_text(const std::string& text);
};

struct DecidedRun {
  TrainConfig config;                     // resolved
  std::optional<DirectoryLock> lock;      // on --save; of the leading process
  std::optional<RunDirectory> directory;  // of the leading process
  RunDecisions decisions;
  std::shared_ptr<CheckpointReader> checkpoint;  // null: the run begins anew
  std::optional<Manifest::Base> base;            // of adapters (start/adapter_sources.h)
  std::chrono::steady_clock::duration time{};    // how long this took
};

// Called by all processes at the same time, within RankRunner::prepare(). ConfigError (78) where
// they differ in flags or build, or do not see the same --save and --load. None of `refused` is
// chosen: the ranks could not read them.
DecidedRun decide_run(TrainConfig config, RankRunner& runner,
                      std::span<const RefusedCheckpoint> refused = {});

// ConfigError where the input files of this process differ from the first rank's.
struct RunInputs;
void agree_on_inputs(const RunInputs& inputs, RankRunner& runner);

}  // namespace phalanx
