#pragma once
// A strided copy as runs along its last dimension. Dimensions that are contiguous in both tensors
// are merged.

#include <array>
#include <cstdint>

#include "phalanx/tensor/tensor.h"

namespace phalanx::cpu {

struct CopyPlan {
  struct Dimension {
    std::int64_t extent = 1;
    std::int64_t source_stride = 1;
    std::int64_t destination_stride = 1;
  };
  struct Offsets {
    std::int64_t source = 0;
    std::int64_t destination = 0;
  };

  Dimension run;          // the innermost dimension
  std::int64_t runs = 1;  // how many there are

  CopyPlan(const Tensor& destination, const Tensor& source) {
    for (int dim = source.shape.rank() - 1; dim >= 0; --dim) {
      add({source.shape[dim], source.strides[dim], destination.strides[dim]});
    }
    run = dimensions_[0];
    for (int i = 1; i < rank_; ++i) runs *= at(i).extent;
  }

  // Where a run starts, in elements.
  Offsets offsets(std::int64_t index) const {
    Offsets offsets;
    for (int i = 1; i < rank_; ++i) {
      const Dimension& dimension = at(i);
      const std::int64_t place = index % dimension.extent;
      index /= dimension.extent;
      offsets.source += place * dimension.source_stride;
      offsets.destination += place * dimension.destination_stride;
    }
    return offsets;
  }

 private:
  const Dimension& at(int i) const { return dimensions_[static_cast<std::size_t>(i)]; }

  // The next outer dimension.
  void add(const Dimension& outer) {
    if (outer.extent == 1) return;
    if (rank_ > 0) {
      Dimension& inner = dimensions_[static_cast<std::size_t>(rank_ - 1)];
      if (outer.source_stride == inner.extent * inner.source_stride &&
          outer.destination_stride == inner.extent * inner.destination_stride) {
        inner.extent *= outer.extent;
        return;
      }
    }
    dimensions_[static_cast<std::size_t>(rank_++)] = outer;
  }

  std::array<Dimension, kMaxRank> dimensions_{};  // innermost first
  int rank_ = 0;
};

}  // namespace phalanx::cpu
