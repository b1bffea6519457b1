#pragma once
// What a parameter is, free of any layout: its global name and shape, how it starts, how it decays,
// and which boxes of it a rank holds. Initialisation, checkpoints, digests, ZeRO cuts and norms
// read only this.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/base/shape.h"
#include "phalanx/mesh/axis_set.h"

namespace phalanx {

// Equal parts of a global and a local tensor: rows [global_row, global_row + rows) of the global
// matrix are rows [local_row, ...) of the local one, columns likewise. A vector is a matrix of one
// row. A fused QKV or gate/up shard is several boxes; on one rank there is one that covers
// everything.
struct ParamBox {
  std::int64_t global_row = 0, global_column = 0;
  std::int64_t local_row = 0, local_column = 0;
  std::int64_t rows = 0, columns = 0;
  // Of a parameter that is cut: how many neighbours of the tensor-parallel group have this box,
  // each with its own part of the gradient, and which of them this rank is. The first one counts
  // and writes the box.
  int holders = 1, holder = 0;
};

struct Initialiser {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  // The constant, the deviation of the normal distribution, or the largest magnitude of a uniform
  // one around 0.
  double value = 0.0;
  // Of a random matrix: so many rows that follow each other are equal.
  std::int64_t row_copies = 1;
};

// What the gradient of a parameter of all tokens is summed over: the ranks that have other samples,
// or other rows of the same samples.
inline constexpr AxisSet kRowAxes = {Axis::kContext, Axis::kData};

// The data-parallel ranks of a parameter: those that have the same part of it, and sum its gradient
// and cut its states among them. They depend on the grid that the parameter is laid out in.
enum class ReductionDomain : std::uint8_t {
  kDense,   // ranks along the context and data axes
  kExpert,  // of an expert: ranks along the expert-data axis of the grid of experts, which may have
            // other tokens of one tensor-parallel group (regions/expert_region.h)
};
inline constexpr std::array kReductionDomains = {ReductionDomain::kDense, ReductionDomain::kExpert};

// One value for each reduction domain.
template <typename T>
struct PerDomain {
  T dense = {};
  T expert = {};

  T& operator[](ReductionDomain domain) {
    return domain == ReductionDomain::kExpert ? expert : dense;
  }
  const T& operator[](ReductionDomain domain) const {
    return domain == ReductionDomain::kExpert ? expert : dense;
  }
};

// One of the places of a model that use a shared parameter: a tied word table has a role in the
// head and one in each embedding. Every role has a gradient accumulator of its own, wherever the
// others are, and after the passes of an update the roles are summed in increasing order, from the
// left: so the sum has the same bits on one rank as on many.
//
// A sum over ranks takes one all-reduce where every rank but that of the first roles has one role;
// other orders take a chain of messages. That is why the head's role comes first, and then the
// embeddings from the last stage to the first.
struct ParamRole {
  enum class Gradient : std::uint8_t {
    kDense,
    kRows,  // only of rows that occurred: a table that tokens look up (ops/embedding.h)
  };
  int order = 0;  // among the roles of the model; there may be gaps
  Gradient gradient = Gradient::kDense;
  int sequence = 0;  // of kRows: that of the tokens

  friend bool operator==(const ParamRole&, const ParamRole&) = default;
};

// Roles of tables that embeddings and a head share.
inline constexpr int kHeadRole = 0;
inline constexpr int kDecoderEmbeddingRole = 1;
inline constexpr int kEmbeddingRole = 2;  // of the only embedding, or the encoder's

struct ParamSpec {
  std::string name;    // Megatron-core's, with the global layer number
  Shape global_shape;  // without vocabulary padding
  Shape local_shape;   // what this rank holds, padding included
  DType dtype = DType::kF32;
  std::vector<ParamBox> boxes;
  Initialiser initialiser;
  bool decays = true;  // weight decay applies (matrices and embeddings; not biases and norms)
  // The word table and the output matrix may have a learning rate of their own, as in Megatron.
  bool decoupled_rate = false;
  AxisSet cut_over = {};  // ranks that differ along other axes alone hold the same
  ReductionDomain domain = ReductionDomain::kDense;
  // Ranks that differ along these axes each have a part of the gradient's sum. With the tensor
  // axis: the parameter is on every rank of the tensor-parallel group, and each saw its share of
  // the sequence or of the heads (norms, row-parallel biases).
  AxisSet summed_over = kRowAxes;
  // Of a parameter with roles: the name of the group of ranks that have it, as in Megatron
  // ("embd"). Each has the whole parameter, with the same name and the same numbers. Without roles:
  // the name that the group would have.
  std::string shared_by = {};
  // Not trainable: passes read the weight, and it has no gradient and no optimizer state.
  bool trainable = true;
  // No parameter but a state of its layer, which the end of a step updates from what the layer
  // counted (nn/router_state.h). It is never trained, counts in no number of parameters, and has
  // the same elements on all ranks that have the layer. Checkpoints have it as they have weights.
  bool is_state = false;
};

// The number of a parameter within a model, in global parameter order.
using ParamId = int;

// Elements that exist in the global tensor among those this rank holds (padding excluded).
std::int64_t true_count(const ParamSpec& spec);

// The largest number of holders of its boxes; 1 where no other rank has any of them.
int most_holders(const ParamSpec& spec);
// How many elements neighbours have too. They must lie at the end of the local part: else
// InternalError.
std::int64_t common_count(const ParamSpec& spec);
// How many elements, at the beginning of the local part, this rank counts: all but those that an
// earlier holder counts.
std::int64_t counted_count(const ParamSpec& spec);

// rows x columns as boxes see it: a vector is one row.
std::int64_t matrix_rows(const Shape& shape);
std::int64_t matrix_columns(const Shape& shape);

// The whole tensor on one rank, with `padded_rows` local rows where the vocabulary is padded (0:
// none).
ParamSpec whole_parameter(std::string name, Shape global_shape, DType dtype,
                          Initialiser initialiser, std::int64_t padded_rows = 0);

// Part `rank` of `size` equal parts along dimension 0: rows of a matrix, elements of a vector.
// Where padded_rows is above 0, that many are cut, and the box has those rows of the part that
// exist globally; a part of padding alone has no box. Of one part it is whole_parameter.
ParamSpec row_cut_parameter(std::string name, Shape global_shape, DType dtype,
                            Initialiser initialiser, int rank, int size,
                            std::int64_t padded_rows = 0);

// The same along dimension 1 of a matrix.
ParamSpec column_cut_parameter(std::string name, Shape global_shape, DType dtype,
                               Initialiser initialiser, int rank, int size);

// Consecutive rows of a matrix, or elements of a vector, and who has them (ParamBox).
struct RowRange {
  std::int64_t first = 0, count = 0;
  int holders = 1, holder = 0;

  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// A rank of `size` that has these ranges along dimension 0, one after another. Each is a box;
// ranges that are neighbours in the global tensor and have the same holders are one box.
ParamSpec row_ranges_parameter(std::string name, Shape global_shape, DType dtype,
                               Initialiser initialiser, const std::vector<RowRange>& ranges,
                               int size);

// Vocabulary rounded up to a multiple of divisor * tensor_parallel_size, as Megatron pads it.
std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t divisor,
                               std::int64_t tensor_parallel_size);

}  // namespace phalanx
