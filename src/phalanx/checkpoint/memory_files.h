#pragma once
// Checkpoints in memory that outlives the processes of a run: `phalanx launch` owns two memory
// files (memfd_create) for each of its ranks, which inherit them and write them by turns. So the
// newest checkpoint that all ranks have finished survives whichever of them is killed, and is gone
// when the launcher ends.
//
// A memory file begins with a header that names the checkpoint (its epoch), the files that lie in
// it and where; the files are those of a checkpoint in parts. The header is cleared before anything
// else is written and is written last, with a digest of itself: a file without one holds nothing.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/file_descriptor.h"
#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/checkpoint_files.h"
#include "phalanx/checkpoint/manifest.h"
#include "phalanx/checkpoint/part_writer.h"

namespace phalanx {

inline constexpr int kMemoryFilesOfRank = 2;

// The environment variable by which the launcher names them.
inline constexpr const char* kMemoryFilesVariable = "PHALANX_MEMORY_FILES";

// The memory files of one host, by local rank, each rank's next to each other.
class MemoryFiles {
 public:
  MemoryFiles() = default;
  // The launcher makes them. Empty where the system has none.
  static MemoryFiles make(int ranks);

  // The text by which a process knows those that it has inherited: their descriptors.
  std::string to_text() const;
  // UsageError names `variable`.
  static MemoryFiles inherited(std::string_view text, std::string_view variable);

  std::span<const int> descriptors() const { return descriptors_; }
  int ranks() const { return static_cast<int>(descriptors_.size()) / kMemoryFilesOfRank; }
  int descriptor(int local_rank, int turn) const {
    return descriptors_[static_cast<std::size_t>(local_rank * kMemoryFilesOfRank + turn)];
  }
  // The memory that they take now.
  std::int64_t bytes() const;

 private:
  std::vector<FileDescriptor> owned_;  // by the launcher
  std::vector<int> descriptors_;
};

// Writes one memory file.
class MemoryFileWriter {
 public:
  // What the file held is gone at once. IoError.
  MemoryFileWriter(int descriptor, std::string epoch);

  // A file as a whole.
  void add(std::string_view name, std::string_view content);
  // The part of a rank: its data, then its index. write() is called for the bytes of the pieces in
  // their order, finish_part() when all are written (else InternalError). IoError.
  void begin_part(std::int64_t rank, const std::vector<PartWriter::Piece>& pieces);
  void write(std::span<const std::byte> bytes);
  Manifest::Part finish_part();
  // Only now does the file hold a checkpoint's files.
  void seal();

 private:
  struct Entry {
    std::string name;
    std::int64_t begin = 0;
    std::int64_t bytes = 0;
  };
  void put(std::span<const std::byte> bytes);

  int descriptor_;
  std::string epoch_;
  std::vector<Entry> entries_;
  std::int64_t end_;
  PartIndex index_;
  std::int64_t written_ = 0;  // of the part's data
  Xxh3 block_;
};

// The epoch of what a memory file holds; empty: it holds nothing.
std::string epoch_in_memory(int descriptor);

// A checkpoint whose parts all lie in memory files.
struct MemoryCheckpoint {
  std::string epoch;
  Manifest manifest;
  std::string manifest_digest;
};
// All that are complete, the newest first: by (start, iteration). Of a file that is being written,
// or was when its writer was killed, nothing is seen.
std::vector<MemoryCheckpoint> memory_checkpoints(const MemoryFiles& files);
// The files of one. InputMissingError if it is not there.
std::unique_ptr<const CheckpointFiles> files_in_memory(const MemoryFiles& files,
                                                       const std::string& epoch);

}  // namespace phalanx
