#pragma once
// The files in which one rank writes what it has of a checkpoint (version 4):
//
//   part-00007.bin     its pieces, one behind the other
//   part-00007.json    the index: for each piece its tensor, its boxes and its offset, and a digest
//                      of each block of 8 MiB
//
// A box is a rectangle of the global tensor, stored row-major; the boxes of a piece follow each
// other. The index ends with a digest of itself.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/mesh/matrix_box.h"

namespace phalanx {

// "part-00007", without an ending.
std::string part_name(std::int64_t rank);
std::string part_data_name(std::int64_t rank);   // .bin
std::string part_index_name(std::int64_t rank);  // .json
// Whether a file of that name could belong to a part.
bool is_part_file_name(std::string_view name);

struct PartIndex {
  struct Piece {
    std::string tensor;
    std::int64_t offset = 0;  // in the data
    std::vector<MatrixBox> boxes;

    std::int64_t elements() const;
    friend bool operator==(const Piece&, const Piece&) = default;
  };

  // The save that it belongs to: all parts of a checkpoint and its manifest have the same.
  std::string epoch;
  std::int64_t rank = 0;
  std::int64_t bytes = 0;  // of the data
  std::int64_t block_bytes = 0;
  std::vector<std::uint64_t> blocks;  // the XXH3 of each; the last one may be shorter
  std::vector<Piece> pieces;          // by offset

  friend bool operator==(const PartIndex&, const PartIndex&) = default;
};

std::string part_index_to_json(const PartIndex& index);
// DataError names `path` and the field.
PartIndex parse_part_index(std::string_view text, const std::string& path);

}  // namespace phalanx
