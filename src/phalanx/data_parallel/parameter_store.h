#pragma once
// Parameters and their main gradients as dense ranges of flat buffers (flat_layout.h). With a
// distributed optimizer (ZeRO stage 1: Rajbhandari et al., ZeRO, 2020) a rank keeps fp32 main
// parameters and optimizer states for its shard alone.

#include <memory>
#include <span>
#include <vector>

#include "phalanx/data_parallel/flat_layout.h"
#include "phalanx/data_parallel/shared_parameters.h"
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
  bool exists = true;            // else nothing is updated: there are no main parameters
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
  // fp32 main gradients, and accumulators of the roles of shared parameters. The rows that occur in
  // one are at most `tokens_per_step` of its sequence.
  GradientStore(const nn::ParamTable& table, std::vector<SharedSum> shared,
                const FlatLayout& layout, DType dtype,
                const std::vector<std::int64_t>& tokens_per_step, Arena& arena);
  // Of a table that is the whole model.
  GradientStore(const nn::ParamTable& table, const FlatLayout& layout, DType dtype,
                std::int64_t tokens_per_step, Arena& arena);

  nn::Gradients gradients() const { return {gradients_, roles_, begun()}; }
  const Tensor& gradient(ParamId id) const { return gradients_[static_cast<std::size_t>(id)]; }
  const Tensor& flat() const { return flat_; }
  Tensor gradient(const Segment& segment) const {
    return flat_.slice(0, segment.flat, segment.count);
  }
  // How the roles of this rank's shared parameters become one sum.
  const std::vector<SharedSum>& shared() const { return shared_; }

  // Once, before the first step: no slot of accumulators of rows is in use, and what no parameter
  // owns is zero for good.
  void initialise(Context& context) const;
  // Before a step: whatever the main gradients hold, the first pass over each overwrites it.
  void begin_update() const;
  // Zeros the main gradients, to which all passes add.
  void clear(Context& context) const;
  // Makes the main gradient the sum of the roles that a run begins with, or adds the run's to the
  // sum of those before, which is there. Before any reduction over data parallelism.
  void join(Context& context, const SharedSum& sum, const SharedSum::Run& run) const;
  // Of a rank that holds all roles: every shared parameter's.
  void join_all(Context& context) const;
  // InternalError where a gradient is not of this update: no pass wrote it.
  void expect_complete() const;

 private:
  std::span<bool> begun() const { return {begun_.get(), gradients_.size() + roles_.size()}; }
  void add_roles(DType dtype, const std::vector<std::int64_t>& tokens_per_step, Arena& arena);
  // The role of a run whose accumulator is the main gradient, or -1.
  int role_in_place(const SharedSum& sum, const SharedSum::Run& run) const;

  const nn::ParamTable* table_;
  Tensor flat_;
  std::vector<Tensor> gradients_;
  std::vector<SharedSum> shared_;
  std::vector<nn::RoleGradient> roles_;
  std::unique_ptr<bool[]> begun_;  // by id, then by role: whether this update has a sum
};

}  // namespace phalanx
