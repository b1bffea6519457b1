#pragma once
// Parameters as dense ranges of flat buffers (flat_layout.h). With a distributed optimizer a rank
// keeps fp32 main parameters for its shard only. If weights are cut too, it keeps its shard of
// them, in memory or in a file, and passes read the gathered weights (weight_gathers.h).

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/data_parallel/tile_file.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

// The parameters in a flat buffer of the layout, by ParamId.
std::vector<Tensor> parameter_views(const nn::ParamTable& table, const FlatLayout& layout,
                                    const Tensor& flat);

// The storages of states that lie in files, and the memory through which these are read and
// written; null if none lie in files.
struct StateFiles {
  Storage* states = nullptr;
  Storage* weights = nullptr;
  TileStaging* staging = nullptr;
};

class ParameterStore {
 public:
  // Weights are kept in their storage type; fp32 main parameters of the shard are kept only if that
  // is a 16-bit type.
  ParameterStore(StateLayout states, Arena& parameters, Arena& main_parameters,
                 const StateFiles& files = {});

  const StateLayout& states() const { return states_; }
  const nn::ParamTable& table() const { return states_.table(); }

  // What passes read; an empty tensor for a parameter whose weights are cut.
  nn::Weights weights() const { return {weights_}; }
  const Tensor& weight(ParamId id) const { return weights_[static_cast<std::size_t>(id)]; }
  // All weights that this rank keeps.
  const Tensor& flat() const { return flat_; }
  // A bucket's weights: all of them, or this rank's part if they are cut.
  Tensor weights(const StateLayout::Bucket& bucket) const;
  bool has_main_parameters() const { return has_main_parameters_; }
  // A segment in storage type and in full precision; the same tensor if the storage type is full.
  // InternalError if it lies in a file.
  Tensor weight(const Segment& segment) const;
  Tensor main(const Segment& segment) const;
  // For visit_tiles(): main parameters, then weights.
  std::array<TileAccess, 2> accesses(bool reads, bool writes) const;
  // A segment, given the tensors of these two accesses.
  Tensor weight(const Segment& segment, std::span<const Tensor> tile) const;
  Tensor main(const Segment& segment, std::span<const Tensor> tile) const;
  const TileFile* weight_file() const { return weight_file_.get(); }
  TileStaging* staging() const { return staging_; }
  // The whole parameter in full precision, if nothing is sharded.
  Tensor main(ParamId id) const;

  // Draws every parameter as its specification says, by global coordinates: every layout starts
  // from the same numbers.
  void initialise(Context& context, PhiloxKey key) const;
  // Zeros weights and main parameters, before they are read from a file that has no padding.
  void clear(Context& context) const;
  // Rounds main parameters into the storage type; each rank rounds its shard.
  void round_to_storage(Context& context) const;

 private:
  StateLayout states_;
  bool has_main_parameters_;
  Tensor flat_;
  StateColumn mains_;
  std::unique_ptr<TileFile> weight_file_;  // of weights that lie there
  TileStaging* staging_;
  std::vector<Tensor> weights_;
};

}  // namespace phalanx
