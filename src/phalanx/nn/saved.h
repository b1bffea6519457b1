#pragma once
// The tensors that backward needs. A layer declares its saved tensors when it is built: shape, when
// each is born and which pass reads it last. The owner of the memory places them
// (pipeline/saved_plan.h) and passes them in for one microbatch.

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/ops/rows.h"

namespace phalanx::nn {

// A sample has one sequence, or two: the encoder's and the decoder's.
enum class Sequence : std::uint8_t { kOnly = 0, kEncoder = 0, kDecoder = 1 };
inline constexpr std::size_t kMostSequences = 2;

// A sequence of one microbatch: `sequence` rows of `micro_batch` samples; activations are
// [sequence, micro_batch, h]. A sample has the rows of `context_shards` ranks, each as many. A rank
// holds one of `sequence_shards` equal parts of the residual stream of its rows.
struct BatchShape {
  std::int64_t sequence = 0;
  std::int64_t micro_batch = 0;
  std::int64_t sequence_shards = 1;
  std::int64_t context_shards = 1;
  std::int64_t rows() const { return sequence * micro_batch; }
  // The rows of a sample on all ranks.
  std::int64_t whole_sequence() const { return sequence * context_shards; }
  std::int64_t stream_sequence() const { return sequence / sequence_shards; }
  std::int64_t stream_rows() const { return stream_sequence() * micro_batch; }
};

// The shape of each sequence; a model with one sequence uses the first.
struct BatchShapes {
  BatchShapes() = default;
  BatchShapes(const BatchShape& only) : of{only, {}} {}  // NOLINT: a batch of one sequence is one
  BatchShapes(const BatchShape& encoder, const BatchShape& decoder) : of{encoder, decoder} {}
  const BatchShape& operator[](Sequence sequence) const {
    return of[static_cast<std::size_t>(sequence)];
  }
  std::array<BatchShape, kMostSequences> of;
};

enum class Born : std::uint8_t { kForward, kInputGradient };
enum class LastReader : std::uint8_t { kForward, kInputGradient, kWeightGradient };
// The last reader of what both backward passes read, the weight pass only if there is one.
constexpr LastReader last_reader_if(bool has_weight_pass) {
  return has_weight_pass ? LastReader::kWeightGradient : LastReader::kInputGradient;
}

struct SavedSlot {
  std::string name;
  DType dtype = DType::kF32;
  Born born = Born::kForward;
  LastReader last_reader = LastReader::kWeightGradient;
  std::function<Shape(const BatchShape&)> shape;  // for the slot's sequence
  Sequence sequence = Sequence::kOnly;
  // Minus infinity is a valid value, for a row that sees no key.
  bool may_be_minus_infinity = false;
  // Recomputation does not write it again: the tensor of the forward pass lives until its last
  // reader. For decisions that must not be made twice.
  bool is_kept = false;
};

using SavedId = int;

class SavedSlots {
 public:
  // Slots have this sequence's shape by default.
  explicit SavedSlots(Sequence sequence = Sequence::kOnly) : sequence_(sequence) {}

  SavedId add(SavedSlot slot) { return add(std::move(slot), sequence_); }
  SavedId add(SavedSlot slot, Sequence sequence) {
    slot.sequence = sequence;
    slots_.push_back(std::move(slot));
    return static_cast<SavedId>(slots_.size()) - 1;
  }
  // [s, b, width]: within a tensor-parallel region.
  SavedId add_rows(std::string name, DType dtype, std::int64_t width, Born born, LastReader last) {
    return add({std::move(name), dtype, born, last, [width](const BatchShape& batch) {
                  return Shape{batch.sequence, batch.micro_batch, width};
                }});
  }
  // [s, b, width] of the residual stream.
  SavedId add_stream(std::string name, DType dtype, std::int64_t width, Born born,
                     LastReader last) {
    return add({std::move(name), dtype, born, last, [width](const BatchShape& batch) {
                  return Shape{batch.stream_sequence(), batch.micro_batch, width};
                }});
  }
  // Of a slot that was added before its readers were known.
  void set_last_reader(SavedId id, LastReader last) {
    slots_[static_cast<std::size_t>(id)].last_reader = last;
  }
  const std::vector<SavedSlot>& slots() const { return slots_; }

 private:
  Sequence sequence_;
  std::vector<SavedSlot> slots_;
};

// The saved tensors of one unit for one microbatch, by slot.
class Saved {
 public:
  explicit Saved(Tensors tensors) : tensors_(tensors) {}
  const Tensor& operator[](SavedId id) const { return tensors_[static_cast<std::size_t>(id)]; }

 private:
  Tensors tensors_;
};

}  // namespace phalanx::nn
