#pragma once
// The folder of one rank's files on a disk, below a directory that the user names:
//
//   DIR/phalanx-RUN/rank-0003/     NAME.state, and .lock, which is held while the rank lives
//   DIR/.phalanx-storage           held while folders are made and removed; gone with the last one
//
// Several runs may use one DIR. What runs have left that were killed is removed by the next one
// that comes; folders of living ranks are left alone. When the last rank goes, DIR is as it was
// found: gone, too, if it was not there.
//
// Locks are those of base/file_lock.h: the kernel lets go of them when their process ends, however
// that happens.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace phalanx {

class StorageFolder {
 public:
  // Makes DIR if its parent is there. `flag` named it, for messages; `run` is letters, digits and
  // dashes. OutputError where nothing can be made or locked there; a temporary one (75) where a
  // living process has this rank of this run, or has made and removed folders there for a minute.
  // `poll` is called while another does that, and may throw.
  StorageFolder(const std::filesystem::path& directory, const std::string& run, int rank,
                std::string flag, const std::function<void()>& poll = nullptr);
  StorageFolder(const StorageFolder&) = delete;
  StorageFolder& operator=(const StorageFolder&) = delete;
  // Removes the folder with its files.
  ~StorageFolder();

  const std::filesystem::path& path() const { return path_; }  // of this rank
  const std::string& flag() const { return flag_; }
  // Whether this rank was the first of its run here: the one that tells about the disk.
  bool is_first() const { return is_first_; }

  // What the file system still has for this user.
  std::int64_t free_bytes() const;
  // OutputError that says both, where `bytes` are more: with the sum of all files that are to come.
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
