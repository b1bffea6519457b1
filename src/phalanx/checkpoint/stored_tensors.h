#pragma once
// Where the tensors of a checkpoint lie in its files. They are read by position (pread), some MiB
// at a time.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/checkpoint/checkpoint_files.h"
#include "phalanx/checkpoint/manifest.h"
#include "phalanx/mesh/matrix_box.h"

namespace phalanx {

// Which files are compared with the manifest's digests. Each is read once for that, when it is
// opened.
enum class Verify {
  kNo,               // none
  kWeights,          // weights and copies of input files; the optimizer's states are not read
  kYes,              // all
  kCopies,           // copies of input files: tensors are loaded by ChunkReaders, which verify them
  kCopiesOfWeights,  // likewise, and the optimizer's states are not loaded
};
// Whether only weights are wanted.
constexpr bool is_of_weights(Verify verify) {
  return verify == Verify::kWeights || verify == Verify::kCopiesOfWeights;
}

// The bytes that are read at once.
inline constexpr std::int64_t kReadBytes = std::int64_t{4} << 20;

// Some MiB of a file that are read at once, and the elements in them.
struct StoredChunk {
  struct Piece {
    const Manifest::Entry* entry = nullptr;  // of the manifest
    MatrixBox box;
    std::int64_t offset = 0;  // in the chunk; from there on the box lies row-major
  };
  std::size_t source = 0;  // for the reader: which part or tensor, and which chunk of it
  std::int64_t number = 0;
  std::int64_t bytes = 0;
  std::vector<Piece> pieces;
};

// Chunks that one reader reads in their order: it has verified them when it has read the last one.
using StoredUnit = std::vector<StoredChunk>;

// Of one thread.
class ChunkReader {
 public:
  ChunkReader() = default;
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;
  virtual ~ChunkReader() = default;

  // Fills `to`, of chunk.bytes. IoError, DataError where the file cannot be read or is damaged.
  virtual void read(const StoredChunk& chunk, std::span<std::byte> to) = 0;
  // The bytes that were read from files so far.
  std::int64_t bytes_read() const { return bytes_read_; }

 protected:
  std::int64_t bytes_read_ = 0;
};

class StoredTensors {
 public:
  StoredTensors() = default;
  StoredTensors(const StoredTensors&) = delete;
  StoredTensors& operator=(const StoredTensors&) = delete;
  virtual ~StoredTensors() = default;

  // Fills `to` with a part of a tensor, row-major. InternalError unless the box lies in the tensor
  // and `to` has its size; IoError, DataError where the file cannot be read or is damaged. Several
  // threads may call it.
  virtual void read(const Manifest::Entry& entry, const MatrixBox& box,
                    std::span<std::byte> to) const = 0;
  // What has to be read for these tensors, of which none may be rounded from another one: each of
  // their elements lies in one piece of one chunk. In the order of the files.
  virtual std::vector<StoredUnit> units(std::span<const Manifest::Entry* const> wanted) const = 0;
  virtual std::unique_ptr<ChunkReader> chunk_reader() const = 0;
  // Compares every byte of every file that has tensors and was opened with its digests: DataError
  // names what is damaged.
  virtual void verify_all() const = 0;
};

// The tensors of versions 1 to 3: each is whole, in a safetensors file. Opening checks the headers,
// and the digests of what is to be verified. The manifest must outlive them.
std::unique_ptr<const StoredTensors> open_whole_tensors(const std::filesystem::path& directory,
                                                        const Manifest& manifest, Verify verify);
// The tensors of version 4: pieces of them lie in the part of each rank. Opening reads the indices,
// proves that they are all tensors, once, and verifies blocks; a read verifies each block that it
// needs, whatever was verified before.
std::unique_ptr<const StoredTensors> open_part_tensors(const std::filesystem::path& directory,
                                                       const Manifest& manifest, Verify verify);

std::unique_ptr<const StoredTensors> open_part_tensors(std::shared_ptr<const CheckpointFiles> files,
                                                       const Manifest& manifest, Verify verify);

// For implementations of read(): InternalError as above.
void check_read(const Manifest::Entry& entry, const MatrixBox& box, std::span<const std::byte> to);

}  // namespace phalanx
