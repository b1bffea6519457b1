#pragma once
// What backward needs. A layer declares its saved tensors when it is built: shape, when each is
// born and which pass reads it last. Whoever owns the memory places them (pipeline/saved_plan.h)
// and hands them back for one microbatch.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/ops/rows.h"

namespace phalanx::nn {

// One microbatch: `sequence` positions of `micro_batch` samples; activations are [sequence,
// micro_batch, h]. Of the residual stream a rank holds one of `sequence_shards` equal parts.
struct BatchShape {
  std::int64_t sequence = 0;
  std::int64_t micro_batch = 0;
  std::int64_t sequence_shards = 1;
  std::int64_t rows() const { return sequence * micro_batch; }
  std::int64_t stream_sequence() const { return sequence / sequence_shards; }
  std::int64_t stream_rows() const { return stream_sequence() * micro_batch; }
};

enum class Born : std::uint8_t { kForward, kInputGradient };
enum class LastReader : std::uint8_t { kForward, kInputGradient, kWeightGradient };

struct SavedSlot {
  std::string name;
  DType dtype = DType::kF32;
  Born born = Born::kForward;
  LastReader last_reader = LastReader::kWeightGradient;
  std::function<Shape(const BatchShape&)> shape;
};

using SavedId = int;

class SavedSlots {
 public:
  SavedId add(SavedSlot slot) {
    slots_.push_back(std::move(slot));
    return static_cast<SavedId>(slots_.size()) - 1;
  }
  // [s, b, width]: within a tensor-parallel region.
  SavedId add_rows(std::string name, DType dtype, std::int64_t width, Born born, LastReader last) {
    return add({std::move(name), dtype, born, last, [width](const BatchShape& batch) {
                  return Shape{batch.sequence, batch.micro_batch, width};
                }});
  }
  // The same of the residual stream.
  SavedId add_stream(std::string name, DType dtype, std::int64_t width, Born born,
                     LastReader last) {
    return add({std::move(name), dtype, born, last, [width](const BatchShape& batch) {
                  return Shape{batch.stream_sequence(), batch.micro_batch, width};
                }});
  }
  const std::vector<SavedSlot>& slots() const { return slots_; }

 private:
  std::vector<SavedSlot> slots_;
};

// The saved tensors of one unit for one microbatch, by slot.
class Saved {
 public:
  explicit Saved(std::span<const Tensor> tensors) : tensors_(tensors) {}
  const Tensor& operator[](SavedId id) const { return tensors_[static_cast<std::size_t>(id)]; }

 private:
  std::span<const Tensor> tensors_;
};

}  // namespace phalanx::nn
