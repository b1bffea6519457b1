#pragma once
// Which rank has which stage of the model. A rank's chunks are its stages, in increasing order. In
// a bidirectional placement the model exists twice: microbatches enter one copy at rank 0 (down)
// and the other at the last rank (up), and a rank has a chunk of each.

#include <cstdint>
#include <string_view>
#include <vector>

namespace phalanx {

class Placement {
 public:
  enum class Shape : std::uint8_t {
    kContiguous,     // stage s on rank s
    kLooped,         // on rank s mod p
    kWave,           // down the ranks, up again, ...: with two chunks a V
    kBidirectional,  // stage s of the copy down on rank s, of the copy up on rank p - 1 - s
  };

  static Placement contiguous(int ranks);
  static Placement looped(int ranks, int chunks);
  static Placement wave(int ranks, int chunks);
  static Placement bidirectional(int ranks);

  Shape shape() const { return shape_; }
  int ranks() const { return ranks_; }
  // Chunks of a rank.
  int chunks() const { return chunks_; }
  // Stages of one copy of the model.
  int stages() const { return shape_ == Shape::kBidirectional ? ranks_ : ranks_ * chunks_; }
  // Copies of the model, each with microbatches of its own.
  int directions() const { return shape_ == Shape::kBidirectional ? 2 : 1; }

  int stage(int rank, int chunk) const {
    return stages_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(chunks_) +
                   static_cast<std::size_t>(chunk)];
  }
  int direction(int chunk) const { return shape_ == Shape::kBidirectional ? chunk : 0; }
  int rank(int stage, int direction = 0) const;
  int chunk(int stage, int direction = 0) const;

  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  Placement(Shape shape, int ranks, int chunks);

  Shape shape_;
  int ranks_;
  int chunks_;
  std::vector<int> stages_;  // by (rank, chunk)
};

std::string_view name_of(Placement::Shape shape);

}  // namespace phalanx
