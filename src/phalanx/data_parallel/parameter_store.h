#pragma once
// Parameters and their main gradients as dense ranges of flat buffers. Parameters lie in reverse
// order of registration, about the order in which their gradients become ready, each at a multiple
// of 64 elements; so buckets and ZeRO shards are plain ranges.

#include <vector>

#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

// Offsets in elements.
struct FlatLayout {
  std::vector<std::int64_t> offsets;  // by ParamId
  std::int64_t elements = 0;
};
FlatLayout flat_layout(const nn::ParamTable& table);

class ParameterStore {
 public:
  // Parameters in their storage type; fp32 main parameters only where that is a 16-bit type.
  ParameterStore(const nn::ParamTable& table, Arena& parameters, Arena& main_parameters);

  const nn::ParamTable& table() const { return *table_; }
  const FlatLayout& layout() const { return layout_; }
  nn::Weights weights() const { return {weights_}; }
  // The parameter in storage type and in full precision; the same tensor where the storage is full.
  const Tensor& weight(ParamId id) const { return weights_[static_cast<std::size_t>(id)]; }
  const Tensor& main(ParamId id) const { return mains_[static_cast<std::size_t>(id)]; }
  bool has_main_parameters() const { return has_main_parameters_; }

  // Draws every parameter from its specification: global coordinates, so any layout starts from the
  // same numbers.
  void initialise(Context& context, PhiloxKey key) const;
  // Rounds main parameters into the storage type.
  void round_to_storage(Context& context) const;

 private:
  const nn::ParamTable* table_;
  FlatLayout layout_;
  bool has_main_parameters_;
  std::vector<Tensor> weights_, mains_;
};

class GradientStore {
 public:
  // fp32 main gradients, and for a tied embedding the rows that occur on its input side, at most
  // `tokens_per_step`.
  GradientStore(const nn::ParamTable& table, const FlatLayout& layout, DType dtype,
                std::int64_t tokens_per_step, Arena& arena);

  nn::Gradients gradients() const { return {gradients_, sparse_}; }
  const Tensor& gradient(ParamId id) const { return gradients_[static_cast<std::size_t>(id)]; }

  // Once, before the first step: no slot of the sparse accumulator is in use.
  void initialise(Context& context) const;
  // Zeros the main gradients before a step.
  void clear(Context& context) const;
  // Joins the two accumulators of a tied embedding; before any reduction over data parallelism.
  void join_tied_embedding(Context& context) const;

 private:
  Tensor flat_;
  std::vector<Tensor> gradients_;
  nn::SparseGradient sparse_;
  ParamId tied_ = -1;
};

}  // namespace phalanx
