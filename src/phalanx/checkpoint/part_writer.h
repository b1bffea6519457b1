#pragma once
// Writes the part of one rank: its pieces one behind the other, through one of the engines of
// disk/, and the index.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/checkpoint/manifest.h"
#include "phalanx/checkpoint/part_index.h"
#include "phalanx/disk/kept_file.h"

namespace phalanx {

class PartWriter {
 public:
  struct Piece {
    std::string tensor;
    DType dtype = DType::kF32;
    std::vector<MatrixBox> boxes;  // none is empty
  };

  // Makes the file of the data in `directory`, with room for all pieces. OutputError.
  PartWriter(const std::filesystem::path& directory, std::string epoch, std::int64_t rank,
             const std::vector<Piece>& pieces, const StorageOptions& options = kept_file_options(),
             const EngineMaker& make = make_engine);

  // The bytes of the pieces, in their order, each box row-major. OutputError.
  void write(std::span<const std::byte> bytes) { data_.write(bytes); }
  // The same without a copy (KeptFile). OutputError.
  std::span<std::byte> room() { return data_.room(); }
  void fill(std::int64_t bytes) { data_.fill(bytes); }
  // To be called when all bytes are written (else InternalError): both files are on disk, the
  // directory is not synced yet. The manifest's entry. OutputError.
  Manifest::Part finish();

 private:
  std::filesystem::path directory_;
  PartIndex index_;
  KeptFile data_;
};

// The index of pieces that lie one behind the other; the digests of its blocks are to be filled in.
PartIndex part_index_of(std::string epoch, std::int64_t rank,
                        const std::vector<PartWriter::Piece>& pieces, std::int64_t block_bytes);

}  // namespace phalanx
