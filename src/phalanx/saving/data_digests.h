#pragma once
// The block digests of the data that a run reads: of files that are too large to be read as a whole
// at its start. They are taken while it trains; a checkpoint has those that were known by then, and
// a run that goes on compares them.

#include <memory>
#include <optional>
#include <vector>

#include "phalanx/checkpoint/manifest.h"
#include "phalanx/data/block_digests.h"
#include "phalanx/data/index_cache.h"
#include "phalanx/saving/run_inputs.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class DataDigests {
 public:
  // `loaded` is the manifest that the run goes on from, or null. What was taken in an earlier run
  // comes from --data-cache-path.
  DataDigests(const TrainConfig& config, const RunInputs& inputs, const Manifest* loaded);

  // For a manifest. Where the run has not come as far as the one before it, what that knew stands.
  std::vector<Manifest::DataBlocks> known() const;
  // ConfigError, naming the flag, the file and the bytes, where a block that is known by now is not
  // what it was for the loaded checkpoint. Cheap.
  void check() const;

 private:
  std::int64_t iteration_ = 0;                         // of the loaded checkpoint
  std::vector<Manifest::InputFile> files_;             // those without a digest of the whole
  std::vector<std::optional<BlockDigests>> expected_;  // by file
  std::optional<IndexCache> cache_;
  std::unique_ptr<DigestThread> thread_;  // the last to come and the first to go
};

// Of the leading process. Null where nobody would look at them: nothing is saved, and the
// checkpoint that the run goes on from has none.
std::unique_ptr<const DataDigests> data_digests(const TrainConfig& config, const RunInputs& inputs,
                                                const Manifest* loaded);

}  // namespace phalanx
