#pragma once
// Snapshots of a run in memory files of its launcher (checkpoint/memory_files.h). After a rank was
// killed, all begin again with the newest snapshot that all ranks have finished, instead of the
// newest checkpoint on disk. A snapshot is a checkpoint in parts: any layout loads it.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/checkpoint/memory_files.h"
#include "phalanx/rank/rank.h"
#include "phalanx/saving/job_record.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// ConfigError where --memory-snapshot-interval is given and cannot work: no launcher has memory
// files for all `local_ranks`, or there are several hosts.
void check_memory_snapshots(const RunConfig& run, int local_ranks, int hosts);

// The newest snapshot of this job that is not one of `refused` and newer than what `save` has on
// disk; null: none.
std::shared_ptr<CheckpointReader> newest_snapshot(const RunConfig& run, const JobRecord& job,
                                                  std::span<const RefusedCheckpoint> refused);
// That of an epoch, which another process has chosen. InputMissingError.
std::shared_ptr<CheckpointReader> open_snapshot(const RunConfig& run, const std::string& epoch);

class MemorySnapshots {
 public:
  struct Place {
    int local_rank = 0;          // this rank's on its host
    std::string epoch_prefix;    // of this start; no other has it
    std::int64_t iteration = 0;  // with which the run began
    std::string loaded;          // the epoch of the snapshot that the run began with; "": none
    bool with_frozen = true;     // what is not trained, too; else a base has it
  };
  // All references must outlive this.
  MemorySnapshots(const RunConfig& run, Rank& rank, Place place,
                  const std::vector<InputCopy>& copies);

  // After an iteration, by all ranks at the same time: takes a snapshot where one is due.
  // `manifest` gives the first rank's, without tensors and parts. Where a rank cannot write, this
  // snapshot is left out, with a warning, and the one before stays.
  void after(std::int64_t iteration, const std::function<Manifest()>& manifest);

 private:
  void take(std::int64_t iteration, const std::function<Manifest()>& manifest);

  const RunConfig& run_;
  Rank& rank_;
  MemoryFiles files_;
  Place place_;
  const std::vector<InputCopy>& copies_;
  std::string newest_;  // the epoch of the newest one that all ranks have
  std::int64_t tried_;  // the iteration after which one was considered last
  std::int64_t taken_ = 0;
};

}  // namespace phalanx
