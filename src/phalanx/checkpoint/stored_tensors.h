#pragma once
// Where the tensors of a checkpoint lie in its files. They are read by position (pread), some MiB
// at a time.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "phalanx/checkpoint/manifest.h"
#include "phalanx/mesh/matrix_box.h"

namespace phalanx {

// Which files are compared with the manifest's digests. Each is read once for that, when it is
// opened.
enum class Verify {
  kNo,       // none
  kWeights,  // weights and copies of input files; the optimizer's states are not read
  kYes,      // all
};

// The bytes that are read at once.
inline constexpr std::int64_t kReadBytes = std::int64_t{4} << 20;

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

// For implementations of read(): InternalError as above.
void check_read(const Manifest::Entry& entry, const MatrixBox& box, std::span<const std::byte> to);

}  // namespace phalanx
