#pragma once
// Whose the save directory is. A directory holds one run: a list of checkpoints and its metrics.
// Before a start changes anything there it is decided whether it goes on with that run, from which
// checkpoint, and what of it would be lost: that is refused, or moved to abandoned-N first.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/directory_lock.h"
#include "phalanx/observe/metrics_file.h"
#include "phalanx/train/config.h"

namespace phalanx {

// The configuration of an attempt that a launcher started again (config.restarts above 0): where
// --save holds checkpoints and no --load names it, the run goes on from there, not from where the
// first attempt began.
TrainConfig as_restarted(TrainConfig config);
// Where it holds some: without the flags that say how the first attempt began.
TrainConfig restarted_from_save(TrainConfig config);

// The only writer of --save, which is made where it is not there; empty without --save.
std::optional<DirectoryLock> lock_save_directory(const RunConfig& run);

class RunDirectory {
 public:
  // Decides, and changes nothing; `loaded` is the checkpoint that --load gave, or null, and `name`
  // the id of a run that begins anew. ConfigError where --save holds another run, or --ckpt-step
  // goes back in its own, without --overwrite.
  RunDirectory(const RunConfig& run, const CheckpointReader* loaded, std::string name);

  // Moves aside what the run does not go on with and cuts the metrics after the loaded iteration.
  // Once, before anything else is written there.
  void claim() const;

  // Whether the loaded checkpoint is the directory's own: the run that lies there goes on.
  bool is_resumed() const { return is_resumed_; }
  // For manifests: of the run, and of this start of it.
  const std::string& run_id() const { return run_id_; }
  std::int64_t start() const { return start_; }

 private:
  void refuse_to_lose(const RunConfig& run, const CheckpointReader* loaded) const;

  std::filesystem::path save_;  // empty: nothing is saved
  bool is_resumed_ = false;
  bool loads_own_directory_ = false;  // --load is --save
  std::string run_id_;
  std::int64_t start_ = 1;
  MetricsPosition last_;                          // that the run goes on after
  std::vector<std::filesystem::path> abandoned_;  // checkpoints to move aside
};

}  // namespace phalanx
