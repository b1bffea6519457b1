#pragma once
// The places beside --save where a run saves, with the same protocol: --save-copy, and checkpoints
// that do not last (non_persistent.h).

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "phalanx/saving/run_saver.h"

namespace phalanx {

class SecondPlaces {
 public:
  // Of each rank; the first one locks the directories. DirectoryInUseError where another run saves
  // there; ConfigError where one lies in a checkpoint or holds another run. The rank must outlive
  // this.
  SecondPlaces(const SavedRun& run, Rank& rank, const RunSaver::Listeners& listeners,
               const BackgroundSaving& background);

  // After an iteration: saves where it is time to. A failure is a warning. All ranks at the same
  // time.
  void save(const RunState& state);
  // When training is done: the copy gets the end of the run.
  void save_end(const RunState& state);

 private:
  struct Place {
    std::int64_t interval = 0;
    bool is_copy = false;
    std::optional<DirectoryLock> lock;
    std::optional<RunSaver> saver;
  };
  void add(const std::filesystem::path& directory, std::string_view flag, std::int64_t interval,
           const Retention& retention);

  const RunConfig& config_;
  SavedRun run_;
  Rank& rank_;
  RunSaver::Listeners listeners_;
  BackgroundSaving background_;
  std::vector<std::unique_ptr<Place>> places_;  // at fixed addresses
};

}  // namespace phalanx
