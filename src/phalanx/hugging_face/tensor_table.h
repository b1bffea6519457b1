#pragma once
// Which of their tensors make which of ours: the one table of an architecture that import and
// export read.
//
// A row is one tensor of ours. It is made of whole tensors of theirs, and each of these is blocks
// of rows: the rows of a matrix [out, in], the elements of a vector. Conv1D stores a matrix as [in,
// out]; rows are those of the matrix all the same.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/shape.h"

namespace phalanx::hugging_face {

// Rows [theirs, theirs + rows) of a tensor of theirs are rows [ours, ours + rows) of ours.
struct RowBlock {
  std::int64_t theirs = 0, ours = 0, rows = 0;
};

struct TensorPart {
  std::string name;         // theirs
  Shape shape;              // as it is stored
  bool transposed = false;  // stored as [in, out]
  std::vector<RowBlock> blocks;
};

struct TensorRow {
  std::string name;  // ours
  Shape shape;
  std::vector<TensorPart> parts;  // in the order that their models have
};

// Tensors of theirs that need no place: `name` may begin with '*', which stands for anything.
struct DroppedTensor {
  std::string name;
  std::string twin = {};  // it must be equal to this one, byte for byte; "": may be anything
};

struct TensorTable {
  // In the order of their model: files that are exported have it.
  std::vector<TensorRow> rows;
  std::vector<DroppedTensor> dropped;
  // What other spellings of a stored name are called in the rows; null: names are as they are.
  std::string (*canonical_name)(std::string_view stored) = nullptr;

  void add(TensorRow row) { rows.push_back(std::move(row)); }
};

// A tensor as it is.
TensorRow plain(std::string ours, std::string theirs, Shape shape);
// One that is stored as [in, out]; `shape` is [out, in].
TensorRow transposed(std::string ours, std::string theirs, Shape shape);

// Several tensors of theirs with the same columns (0: vectors), one below the other.
struct StackedPart {
  std::string name;
  std::int64_t rows = 0;
};
TensorRow stacked(std::string ours, std::span<const StackedPart> parts, std::int64_t columns);

// Several tensors whose rows take turns, so many of each: linear_qkv has for every key/value head
// its query rows, its key and its value.
struct GroupedPart {
  std::string name;
  std::int64_t rows = 0;  // in one group
};
TensorRow grouped(std::string ours, std::span<const GroupedPart> parts, std::int64_t groups,
                  std::int64_t columns);

// Blocks of a tensor of theirs that is `kinds` stacked parts of `groups` x `rows` rows, where ours
// has the `kinds` of each group together: q | k | v of all heads to [heads, 3, head size].
std::vector<RowBlock> regrouped(std::int64_t kinds, std::int64_t groups, std::int64_t rows);

// InternalError unless the parts of each row cover it once, and no name comes twice.
void check_table(const TensorTable& table);

}  // namespace phalanx::hugging_face
