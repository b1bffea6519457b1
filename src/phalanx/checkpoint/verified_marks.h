#pragma once
// Which checkpoints of a save directory were read back from the disk, whole: SAVE/.verified, which
// outlives the run. A mark has the length and the time of every file. It counts as long as these
// are the same: whoever copies, edits or restores files has not read them back.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace phalanx {

inline constexpr std::string_view kVerifiedName = ".verified";

// The files of a directory, by name.
struct FileStamp {
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
using FileStamps = std::map<std::string, FileStamp>;
// IoError if it cannot be looked at.
FileStamps stamps_of(const std::filesystem::path& checkpoint);

class VerifiedMarks {
 public:
  // The marks of a save directory; a file that is damaged has none, with a warning.
  explicit VerifiedMarks(const std::filesystem::path& save);

  // Whether the checkpoint is marked and its files are those that were read.
  bool has(const std::filesystem::path& checkpoint) const;
  // Marks a checkpoint, durably; marks of checkpoints that are gone go. `read`: its files before
  // they were read. OutputError.
  void add(const std::filesystem::path& checkpoint, FileStamps read);

 private:
  std::filesystem::path save_;
  std::map<std::string, FileStamps> marks_;  // by the checkpoint's name
};

}  // namespace phalanx
