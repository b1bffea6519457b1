#pragma once
// What a program did to the files below one directory, in order, and what a disk may have of that
// when the power fails: everything that was synced, and any part of what was not. A name is on the
// disk when its directory was synced, bytes and length when the file was.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace phalanx::power_cuts {

// Files and directories have numbers; that of the recorded directory is 0.
inline constexpr int kRoot = 0;

struct Event {
  enum class Kind : std::uint8_t {
    kMake,      // `name` in `directory` is a new file or directory, `node`
    kUnlink,    // `name` in `directory` goes
    kRename,    // `node`, `name` in `directory`, becomes `to_name` in `to_directory`
    kExchange,  // it and `to_node`, which is there, change places
    kWrite,     // `bytes` at `offset` of `node`
    kResize,    // `node` has `size` bytes
    kSync,      // `node` is on the disk: bytes of a file, names of a directory
    kMark,      // the program says that it has come to `offset`
  };
  Kind kind = Kind::kMark;
  int node = -1;
  int directory = -1;
  std::string name = {};
  int to_directory = -1;
  std::string to_name = {};
  int to_node = -1;
  std::int64_t offset = 0;
  std::string bytes = {};
  std::int64_t size = 0;
};

struct DiskRecord {
  std::vector<Event> events;
  std::vector<bool> is_directory = {true};  // by node

  // The last mark before the event `end`; -1: none.
  std::int64_t mark_before(std::size_t end) const;
};

// What is in the directories, by their numbers.
using Directories = std::map<int, std::map<std::string, int>>;
// Nothing, for an event that is not about names.
void apply_names(const Event& event, Directories& directories);
Directories entries_after(const DiskRecord& record);

// The files of a disk: names of directories end with '/'.
using DiskImage = std::map<std::string, std::string>;

// The disk with all that was done, as a process sees it: where a run was killed.
DiskImage whole_image(const DiskRecord& record);
// The first events of a record.
DiskRecord first_of(const DiskRecord& record, std::size_t end);

// The disk where the power failed before the event `end`: a function of the generator's state.
DiskImage cut(const DiskRecord& record, std::size_t end, std::mt19937& random);

// Makes the files below `root`, which is there and empty.
void put_image(const DiskImage& image, const std::filesystem::path& root);

}  // namespace phalanx::power_cuts
