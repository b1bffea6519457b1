#pragma once
// Rows have coordinates. Every row (s, b) of a batch says which sample it belongs to, its place
// in it, and its document; attention masks and dropout are functions of these alone, so neither
// depends on the layout.

#include "phalanx/base/philox.h"
#include "phalanx/tensor/recorder.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx {

struct Context;

// What is known of the coordinates of rows without a look at them, so that kernels pass over what
// nobody sees: rows need not keep to more than is said here, and results have the same bits
// without.
struct RowPattern {
  bool consecutive = false;   // the position of row (s, b) is first + s
  std::int64_t first = 0;     // of consecutive rows
  bool one_document = false;  // every document is 0

  friend bool operator==(const RowPattern&, const RowPattern&) = default;
};

// All three are [s, b].
struct RowCoordinates {
  Tensor sample;    // i64: number of the sample in the consumed stream
  Tensor position;  // i32: place within the sample
  Tensor document;  // i32: document within the sample; negative: padding, which no query sees
  RowPattern pattern = {};
};

// Dropout with probability p at one site (philox.h); nothing is stored, backward computes the same
// mask again.
struct Dropout {
  double probability = 0.0;
  PhiloxKey key;
  std::uint32_t site = 0;
  // Of activations whose features are cut over ranks: the number of this rank's first one.
  std::int64_t first_feature = 0;
};

}  // namespace phalanx
