#pragma once
// A place where a run saves, and what stays there: --save is one. What saves to one place saves to
// another in the same way.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "phalanx/checkpoint/directory_lock.h"
#include "phalanx/checkpoint/retention.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// That of --save.
inline Retention retention_of(const RunConfig& run) {
  return {.keep_last = static_cast<int>(run.keep_last),
          .keep_every = run.keep_every,
          .waits_for_verified = !run.no_verify_saves};
}

struct SaveTarget {
  std::filesystem::path directory;  // empty: nothing is saved
  Retention retention = {};
  // On the directory, in the process that writes the manifest; it must outlive the saver. Null:
  // there is none.
  const std::optional<DirectoryLock>* lock = nullptr;
  std::int64_t last_saved = -1;  // the iteration that it already has; -1: none
  bool may_fail = false;         // no failure ends the run
  bool trains_meanwhile = true;  // with --async-save
};

}  // namespace phalanx
