#pragma once
// Whose the save directory is. A directory holds one run: a list of checkpoints and its metrics.
// Before a start changes anything there it is decided whether it goes on with that run, from which
// checkpoint, and what of it would be lost: that is refused, or moved to abandoned-N first.

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

// The configuration of an attempt that goes on from what its job has saved: without the flags that
// say how the first attempt began.
TrainConfig restarted_from_save(TrainConfig config);

// The only writer of --save, which is made where it is not there; empty without --save. ConfigError
// where that lies in a checkpoint.
std::optional<DirectoryLock> lock_save_directory(const RunConfig& run);

class RunDirectory {
 public:
  // Decides, and changes nothing; `loaded` is the checkpoint that the run begins with, or null,
  // `job` what an earlier attempt has decided, if that has begun, and `name` the id of a run that
  // begins anew. ConfigError where --save holds another run, or --ckpt-step goes back in its own,
  // without --overwrite.
  RunDirectory(const RunConfig& run, const CheckpointReader* loaded, JobRecord job,
               std::string name);

  // Writes the job's record, then moves aside what the run does not go on with and cuts the metrics
  // after the loaded iteration. Once, before anything else is written there. Killed on the way, the
  // job's next attempt does the rest.
  void claim() const { claim(nullptr); }
  // `before_step` is called before each step with its name: fault tests stop here.
  void claim(const std::function<void(std::string_view step)>& before_step) const;

  // Whether the loaded checkpoint is the directory's own: the run that lies there goes on.
  bool is_resumed() const { return is_resumed_; }
  // For manifests: of the run, and of this start of it.
  const std::string& run_id() const { return run_id_; }
  std::int64_t start() const { return start_; }

 private:
  void refuse_to_lose(const RunConfig& run, const CheckpointReader* loaded) const;
  std::string what_is_moved(bool has_lines) const;

  std::filesystem::path save_;  // empty: nothing is saved
  bool is_resumed_ = false;
  bool loads_own_directory_ = false;  // --load is --save
  std::int64_t start_ = 1;
  MetricsPosition last_;                          // that the run goes on after
  std::vector<std::filesystem::path> abandoned_;  // checkpoints to move aside
  JobRecord job_;                                 // with this start's choice
  bool goes_on_with_job_ = false;                 // and all of that was done
  std::string run_id_;
};

}  // namespace phalanx
