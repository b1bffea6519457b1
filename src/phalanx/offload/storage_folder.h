#pragma once
// The folder of one rank's files on a disk, below a directory that the user names:
//
//   DIR/phalanx-RUN/rank-0003/     NAME.state, and .lock, which is held while the rank lives
//   DIR/.phalanx-storage           held while folders are made and removed; gone with the last one
//
// Several runs may use one DIR. A run removes what killed runs have left, and leaves folders of
// living ranks alone. When the last rank ends, DIR is as it was before, also if it did not exist.
//
// Locks are those of base/file_lock.h: the kernel releases them when their process ends, however
// that happens.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace phalanx {

class StorageFolder {
 public:
  // Makes DIR if its parent exists. `flag` names DIR in messages; `run` has letters, digits and
  // dashes. OutputError if nothing can be made or locked there; its temporary kind (75) if a living
  // process has this rank of this run, or others make and remove folders there for a minute. `poll`
  // is called while this waits for others, and may throw.
  StorageFolder(const std::filesystem::path& directory, const std::string& run, int rank,
                std::string flag, const std::function<void()>& poll = nullptr);
  StorageFolder(const StorageFolder&) = delete;
  StorageFolder& operator=(const StorageFolder&) = delete;
  // Removes the folder with its files.
  ~StorageFolder();

  const std::filesystem::path& path() const { return path_; }  // of this rank
  const std::string& flag() const { return flag_; }
  // Whether this rank was the first of its run here: it logs a line about the disk.
  bool is_first() const { return is_first_; }

  // The space that the file system has left for this user.
  std::int64_t free_bytes() const;
  // OutputError, with both numbers, if `bytes` (the sum of all files to be made) are more than
  // that.
  void expect_space(std::int64_t bytes) const;

 private:
  int claim(const std::function<void()>& poll);
  void leave() noexcept;

  std::filesystem::path directory_;
  std::filesystem::path path_;
  std::string flag_;
  int lock_ = -1;
  bool is_first_ = false;
};

}  // namespace phalanx
