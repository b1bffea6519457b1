#include "phalanx/pipeline/placement.h"

#include "phalanx/base/error.h"

namespace phalanx {

Placement::Placement(Shape shape, int ranks, int chunks)
    : shape_(shape), ranks_(ranks), chunks_(chunks) {
  PHALANX_CHECK(ranks > 0 && chunks > 0, "a pipeline of {} ranks with {} chunks each", ranks,
                chunks);
  for (int r = 0; r < ranks; ++r) {
    for (int c = 0; c < chunks; ++c) {
      const bool up = shape == Shape::kContiguous || shape == Shape::kLooped ? false : c % 2 == 1;
      const int column = up ? ranks - 1 - r : r;
      stages_.push_back(shape == Shape::kBidirectional ? column : c * ranks + column);
    }
  }
}

Placement Placement::contiguous(int ranks) { return {Shape::kContiguous, ranks, 1}; }
Placement Placement::looped(int ranks, int chunks) { return {Shape::kLooped, ranks, chunks}; }
Placement Placement::wave(int ranks, int chunks) { return {Shape::kWave, ranks, chunks}; }
Placement Placement::bidirectional(int ranks) { return {Shape::kBidirectional, ranks, 2}; }

int Placement::rank(int stage, int direction) const {
  if (shape_ == Shape::kBidirectional) return direction == 0 ? stage : ranks_ - 1 - stage;
  const int column = stage % ranks_;
  const bool up = shape_ == Shape::kWave && (stage / ranks_) % 2 == 1;
  return up ? ranks_ - 1 - column : column;
}

int Placement::chunk(int stage, int direction) const {
  return shape_ == Shape::kBidirectional ? direction : stage / ranks_;
}

std::string_view name_of(Placement::Shape shape) {
  switch (shape) {
    case Placement::Shape::kContiguous:
      return "contiguous";
    case Placement::Shape::kLooped:
      return "looped";
    case Placement::Shape::kWave:
      return "wave";
    case Placement::Shape::kBidirectional:
      return "bidirectional";
  }
  return "?";
}

}  // namespace phalanx
