#pragma once
// Decides what a start may do in the save directory. A directory holds one run: its checkpoints and
// its metrics. Before a start changes anything there, this decides whether it continues that run
// and from which checkpoint. What would be lost is moved to abandoned-N first, or the start is
// refused.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/directory_lock.h"
#include "phalanx/metrics/metrics_file.h"
#include "phalanx/saving/job_record.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// The configuration of an attempt that resumes from what its job has saved: without the flags that
// say how the first attempt began.
TrainConfig restarted_from_save(TrainConfig config);

// Locks --save, and makes the directory if it does not exist; empty without --save. ConfigError
// where the directory lies in a checkpoint.
std::optional<DirectoryLock> lock_save_directory(const RunConfig& run);

// What names the states that a start of a run saves.
struct RunIdentity {
  std::string run_id;
  std::int64_t start = 1;  // a higher number than any that --save has
  bool is_resumed =
      false;  // the loaded checkpoint lies in --save: the run that lies there continues
  friend bool operator==(const RunIdentity&, const RunIdentity&) = default;
};

// Whether the checkpoint is one of this save directory's; one in memory is not.
bool is_saved_in(const std::filesystem::path& save, const CheckpointReader& checkpoint);

class RunDirectory {
 public:
  // Decides, and changes nothing. `loaded` is the checkpoint that the run begins with, or null;
  // `job` is what an earlier attempt has decided, if it has begun; `name` is the id of a run that
  // begins anew. ConfigError without --overwrite where --save holds another run, or where
  // --ckpt-step goes back in the same run.
  RunDirectory(const RunConfig& run, const CheckpointReader* loaded, JobRecord job,
               std::string name);

  // Writes the job's record, then moves aside what the run does not continue and cuts the metrics
  // after the loaded iteration. Called once, before anything else is written there. If it is killed
  // on the way, the job's next attempt does the rest.
  void claim() const { claim(nullptr); }
  // `before_step` is called before each step with its name: fault tests stop here.
  void claim(const std::function<void(std::string_view step)>& before_step) const;

  const RunIdentity& identity() const { return identity_; }

 private:
  void refuse_to_lose(const RunConfig& run, const CheckpointReader* loaded) const;
  std::string what_is_moved(bool has_lines) const;

  std::filesystem::path save_;                    // empty: nothing is saved
  bool loads_own_directory_ = false;              // --load is --save
  MetricsPosition last_;                          // after which the run goes on
  std::vector<std::filesystem::path> abandoned_;  // checkpoints to move aside
  JobRecord job_;                                 // with this start's choice
  bool goes_on_with_job_ = false;                 // its record says that all of that was done
  RunIdentity identity_;
};

}  // namespace phalanx
