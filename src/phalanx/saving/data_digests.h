#pragma once
// The block digests of the data that a run reads, for files that are too large to be read whole at
// its start. They are computed while the run trains. A checkpoint holds those that were known when
// it was saved; a run that resumes from it compares them.

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
  // `loaded` is the manifest that the run goes on from, or null. Digests of an earlier run come
  // from --data-cache-path.
  DataDigests(const TrainConfig& config, const RunInputs& inputs, const Manifest* loaded);

  // The digests for a manifest: those of this run, and those of the loaded manifest for blocks that
  // this run has not read yet.
  std::vector<Manifest::DataBlocks> known() const;
  // ConfigError, naming the flag, the file and the bytes, where a block that is known by now
  // differs from the loaded checkpoint's. Cheap.
  void check() const;

 private:
  std::int64_t iteration_ = 0;                         // of the loaded checkpoint
  std::vector<Manifest::InputFile> files_;             // those without a digest of the whole
  std::vector<std::optional<BlockDigests>> expected_;  // by file
  std::optional<IndexCache> cache_;
  std::unique_ptr<DigestThread> thread_;  // destroyed first: it uses the others
};

// For the leading process. Null where the digests have no use: nothing is saved, and the loaded
// checkpoint has none.
std::unique_ptr<const DataDigests> data_digests(const TrainConfig& config, const RunInputs& inputs,
                                                const Manifest* loaded);

}  // namespace phalanx
