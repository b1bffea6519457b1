#pragma once
// Parameters and their main gradients as dense ranges of flat buffers (flat_layout.h). With a
// distributed optimizer (ZeRO stage 1: Rajbhandari et al., ZeRO, 2020) a rank keeps fp32 main
// parameters and optimizer states for its shard alone.

#include <memory>
#include <span>
#include <vector>

#include "phalanx/data_parallel/flat_layout.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

// What a flat buffer of the layout holds, by ParamId.
std::vector<Tensor> parameter_views(const nn::ParamTable& table, const FlatLayout& layout,
                                    const Tensor& flat);

// How the optimizer's share of a rank is cut out of the flat buffers.
struct OptimizerShard {
  int rank = 0;
  int ranks = 1;
  std::int64_t bucket_size = 0;  // elements; 0: one bucket
};

class ParameterStore {
 public:
  // Parameters in their storage type; fp32 main parameters, of the shard, only where that is a
  // 16-bit type. The table is the whole model.
  ParameterStore(const nn::ParamTable& table, Arena& parameters, Arena& main_parameters,
                 const OptimizerShard& shard = {});
  // Of a part of a model: `places` in the whole.
  ParameterStore(const nn::ParamTable& table, ModelPlaces places, Arena& parameters,
                 Arena& main_parameters, const OptimizerShard& shard = {});

  const nn::ParamTable& table() const { return *table_; }
  const ModelPlaces& places() const { return places_; }
  const FlatLayout& layout() const { return layout_; }
  const std::vector<FlatRange>& buckets() const { return buckets_; }
  // What this rank's optimizer updates: everything, or a part of every bucket.
  const std::vector<FlatRange>& shard() const { return shard_; }
  const std::vector<Segment>& segments() const { return segments_; }
  bool is_sharded() const { return is_sharded_; }

  nn::Weights weights() const { return {weights_}; }
  const Tensor& flat() const { return flat_; }
  const Tensor& weight(ParamId id) const { return weights_[static_cast<std::size_t>(id)]; }
  bool has_main_parameters() const { return has_main_parameters_; }
  // The segment in storage type and in full precision; the same tensor where the storage is full.
  Tensor weight(const Segment& segment) const;
  Tensor main(const Segment& segment) const;
  // The whole parameter in full precision, where nothing is sharded.
  Tensor main(ParamId id) const;

  // Draws every parameter from its specification: global coordinates, so any layout starts from the
  // same numbers. `scratch` (fp32, of the layout's size; the gradients before the first step) is
  // where they are drawn if main parameters exist.
  void initialise(Context& context, PhiloxKey key, const Tensor& scratch) const;
  // Zeros weights and main parameters, before they come from a file that has no padding.
  void clear(Context& context) const;
  // Rounds main parameters into the storage type. Of a shard, other ranks' parts are theirs to
  // round.
  void round_to_storage(Context& context) const;

 private:
  const nn::ParamTable* table_;
  ModelPlaces places_;
  FlatLayout layout_;
  std::vector<FlatRange> buckets_, shard_;
  std::vector<Segment> segments_;
  bool is_sharded_;
  bool has_main_parameters_;
  Tensor flat_, mains_;
  std::vector<Tensor> weights_;
};

class GradientStore {
 public:
  // fp32 main gradients, and for a tied embedding the rows that occur on its input side, at most
  // `tokens_per_step`.
  GradientStore(const nn::ParamTable& table, const FlatLayout& layout, DType dtype,
                std::int64_t tokens_per_step, Arena& arena);

  nn::Gradients gradients() const { return {gradients_, sparse_, begun()}; }
  const Tensor& gradient(ParamId id) const { return gradients_[static_cast<std::size_t>(id)]; }
  const Tensor& flat() const { return flat_; }
  Tensor gradient(const Segment& segment) const {
    return flat_.slice(0, segment.flat, segment.count);
  }
  // The parameter with a second accumulator, or -1.
  ParamId tied_embedding() const { return tied_; }

  // Once, before the first step: no slot of the sparse accumulator is in use, and what no parameter
  // owns is zero for good.
  void initialise(Context& context) const;
  // Before a step: whatever the main gradients hold, the first pass over each overwrites it.
  void begin_update() const;
  // Zeros the main gradients, to which all passes add.
  void clear(Context& context) const;
  // Joins the two accumulators of a tied embedding; before any reduction over data parallelism.
  void join_tied_embedding(Context& context) const;
  // InternalError where a gradient is not of this update: no pass wrote it.
  void expect_complete() const;

 private:
  std::span<bool> begun() const { return {begun_.get(), gradients_.size()}; }

  const nn::ParamTable* table_;
  Tensor flat_;
  std::vector<Tensor> gradients_;
  std::unique_ptr<bool[]> begun_;  // by id: whether this update has a sum
  nn::SparseGradient sparse_;
  ParamId tied_ = -1;
};

}  // namespace phalanx
