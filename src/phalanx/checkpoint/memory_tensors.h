#pragma once
// Tensors that a program has made, as those of a checkpoint: adapters that were read from another
// format.

#include <memory>
#include <string>
#include <vector>

#include "phalanx/base/shape.h"
#include "phalanx/checkpoint/checkpoint_reader.h"

namespace phalanx {

struct MemoryTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;  // row-major
};

// A reader for CheckpointReader::lay_over(). InternalError if the values are not as many as the
// shape asks for.
std::shared_ptr<const CheckpointReader> reader_of(std::vector<MemoryTensor> tensors);

}  // namespace phalanx
