#pragma once
// `phalanx checkpoint digest`: one digest for each global tensor. Two runs that end with the same
// bits print the same document, whatever their layouts were.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"

namespace phalanx {

struct CheckpointDigest {
  struct Entry {
    std::string name;
    DType dtype = DType::kF32;
    Shape shape;
    std::uint64_t xxh3 = 0;  // of the row-major little-endian bytes
  };
  std::int64_t iteration = 0;
  std::vector<Entry> tensors;  // in the manifest's order
};

// Computed from the stored bytes.
CheckpointDigest digest_checkpoint(const CheckpointReader& reader);

// {"iteration": int, "tensors": {name: {"dtype": "f32", "shape": [...], "xxh3": "16 hex digits"}}}
// and a newline.
std::string to_json(const CheckpointDigest& digest);
// A line for each tensor.
std::string to_text(const CheckpointDigest& digest);

}  // namespace phalanx
