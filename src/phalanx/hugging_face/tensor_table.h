#pragma once
// The table of an architecture: which of their tensors make which of ours. Import and export read
// the same table.
//
// A row is one tensor of ours. It is made of whole tensors of theirs, each of which is cut into
// blocks of rows: the rows of a matrix [out, in], or the elements of a vector. If a matrix is
// stored as [in, out] (Conv1D), rows are still those of [out, in].

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
  std::vector<TensorPart> parts;  // in the order of their models
};

// Tensors of theirs that are not imported: `name` may begin with '*', which stands for any text.
struct DroppedTensor {
  std::string name;
  std::string twin = {};  // a tensor that it must equal byte for byte; "": anything is allowed
};

// A part's place in a stack of parts, one below the other.
struct StackedPart {
  std::string name;
  std::int64_t rows = 0;
};

// Another form in which folders have some of the parts: one tensor with the bytes of one part after
// another, such as all experts of a layer.
struct JoinedTensor {
  std::string name;
  Shape shape;  // [..., columns]
  std::vector<StackedPart> parts = {};
};

struct TensorTable {
  // In the order of their model, which is the order in exported files.
  std::vector<TensorRow> rows;
  std::vector<DroppedTensor> dropped;
  std::vector<JoinedTensor> joined;  // read in the place of their parts, never written
  // Translates other spellings of a stored name to those of the rows; null: there are none.
  std::string (*canonical_name)(std::string_view stored) = nullptr;

  void add(TensorRow row) { rows.push_back(std::move(row)); }
};

// A row of one tensor, stored as [out, in].
TensorRow plain(std::string ours, std::string theirs, Shape shape);
// A row of one tensor that is stored as [in, out]; `shape` is [out, in].
TensorRow transposed(std::string ours, std::string theirs, Shape shape);

// A row of several tensors of theirs with the same columns (0: vectors), one below the other.
TensorRow stacked(std::string ours, std::span<const StackedPart> parts, std::int64_t columns);

// A row of several tensors whose rows alternate, `rows` of each: linear_qkv has for every key/value
// head its query rows, its key and its value.
struct GroupedPart {
  std::string name;
  std::int64_t rows = 0;  // in one group
};
TensorRow grouped(std::string ours, std::span<const GroupedPart> parts, std::int64_t groups,
                  std::int64_t columns);

// Blocks of a tensor of theirs that stacks `kinds` parts of `groups` x `rows` rows, while ours has
// the `kinds` of each group together: q | k | v of all heads to [heads, 3, head size].
std::vector<RowBlock> regrouped(std::int64_t kinds, std::int64_t groups, std::int64_t rows);

// InternalError unless the parts of each row cover it once, and no name comes twice.
void check_table(const TensorTable& table);

}  // namespace phalanx::hugging_face
