#pragma once
// The newest checkpoint that a job has saved, in a memory file (memfd_create) that outlives its
// ranks: rank 0 inherits the file and writes it (cli/last_saved_sink.h), and its launcher reads it
// before a restart. So the launcher notices where --save has lost what the job saved.

#include <cstdint>
#include <optional>
#include <string>

#include "phalanx/base/file_descriptor.h"
#include "phalanx/checkpoint/checkpoint_directory.h"

namespace phalanx::launch {

// The environment variable that has the file's descriptor.
inline constexpr const char* kLastSavedVariable = "PHALANX_LAST_SAVED";

// SavedCheckpoint::iteration while the job has saved nothing, as far as its rank 0 knows: it may
// just have done so. `directory` is then a file that it has written to --save.
inline constexpr std::int64_t kNothingSaved = -1;

class LastSavedFile {
 public:
  LastSavedFile() = default;
  // Not open where the system has no memory files.
  static LastSavedFile make();

  int descriptor() const { return file_.get(); }  // -1: not open
  // Empty: no rank has written it.
  std::optional<SavedCheckpoint> read() const;

 private:
  FileDescriptor file_;
};

// IoError.
void write_last_saved(int descriptor, const SavedCheckpoint& saved);

// Why a restart would not go on with what the job left in --save, for people; empty: it would. A
// checkpoint that the run has moved aside or cannot be read is not lost: the run says so itself.
std::string loss_of(const SavedCheckpoint& last);

}  // namespace phalanx::launch
