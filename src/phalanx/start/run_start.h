#pragma once
// How a run begins: what the first rank decides for all - it alone locks --save, chooses the
// checkpoint, measures the processor - and the proof that all processes are about to do the same.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "phalanx/ops/cpu/precision.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/saving/run_directory.h"
#include "phalanx/start/rank_runner.h"

namespace phalanx {

// Everything else a process computes from the flags and the files alone.
struct RunDecisions {
  bool is_restarted = false;    // goes on from --save
  bool is_pretrained = false;   // begins from --pretrained-checkpoint
  std::string checkpoint;       // its directory; empty: the run begins anew
  std::string manifest_digest;  // of it
  JobRecord job;                // the choice, and whether an earlier attempt has made it
  cpu::ProductChoice products;
  cpu::Peak peak;     // of the threads of a host's ranks, as many as there are cores
  std::string nonce;  // lies in --save while the processes join
  std::string name;   // of this start, and of the run where it begins anew: nobody else has it

  std::string to_text() const;
  static RunDecisions from_text(const std::string& text);
};

struct RunStart {
  TrainConfig config;                 // resolved
  std::optional<DirectoryLock> lock;  // on --save; of the leading process
  RunDecisions decisions;
  std::shared_ptr<const CheckpointReader> checkpoint;  // null: the run begins anew
  std::chrono::steady_clock::duration time{};          // that this took
};

// By all processes at the same time, within RankRunner::prepare(). ConfigError (78) where they
// differ in flags or build, or do not see the same --save and --load.
RunStart start_run(TrainConfig config, RankRunner& runner);

// Where the input files of this process are not those of the first rank: ConfigError.
struct RunInputs;
void agree_on_inputs(const RunInputs& inputs, RankRunner& runner);

}  // namespace phalanx
