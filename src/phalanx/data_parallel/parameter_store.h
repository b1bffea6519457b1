#pragma once
// Parameters as dense ranges of flat buffers (flat_layout.h). With a distributed optimizer a rank
// keeps fp32 main parameters for its shard alone, and where weights are cut too, of these its
// shard, in memory or in a file; passes then read what gathers bring (weight_gathers.h).

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/data_parallel/tile_file.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

// What a flat buffer of the layout holds, by ParamId.
std::vector<Tensor> parameter_views(const nn::ParamTable& table, const FlatLayout& layout,
                                    const Tensor& flat);

// Where states are that lie in files, and the memory through which they come: null where none do.
struct StateFiles {
  Storage* states = nullptr;
  Storage* weights = nullptr;
  TileStaging* staging = nullptr;
};

class ParameterStore {
 public:
  // Parameters in their storage type; fp32 main parameters, of the shard, only where that is a
  // 16-bit type.
  ParameterStore(StateLayout states, Arena& parameters, Arena& main_parameters,
                 const StateFiles& files = {});

  const StateLayout& states() const { return states_; }
  const nn::ParamTable& table() const { return states_.table(); }

  // What passes read. Of a parameter whose weights are cut, nothing: an empty tensor.
  nn::Weights weights() const { return {weights_}; }
  const Tensor& weight(ParamId id) const { return weights_[static_cast<std::size_t>(id)]; }
  // All weights that this rank keeps.
  const Tensor& flat() const { return flat_; }
  // A bucket's weights: all of it, or where these are cut this rank's own.
  Tensor weights(const StateLayout::Bucket& bucket) const;
  bool has_main_parameters() const { return has_main_parameters_; }
  // The segment in storage type and in full precision; the same tensor where the storage is full.
  // InternalError where it lies in a file.
  Tensor weight(const Segment& segment) const;
  Tensor main(const Segment& segment) const;
  // Of a visit of the tiles: these, in this order.
  std::array<TileAccess, 2> accesses(bool reads, bool writes) const;
  // The segment among the tensors of such a visit.
  Tensor weight(const Segment& segment, std::span<const Tensor> tile) const;
  Tensor main(const Segment& segment, std::span<const Tensor> tile) const;
  const TileFile* weight_file() const { return weight_file_.get(); }
  TileStaging* staging() const { return staging_; }
  // The whole parameter in full precision, where nothing is sharded.
  Tensor main(ParamId id) const;

  // Draws every parameter from its specification: global coordinates, so any layout starts from the
  // same numbers.
  void initialise(Context& context, PhiloxKey key) const;
  // Zeros weights and main parameters, before they come from a file that has no padding.
  void clear(Context& context) const;
  // Rounds main parameters into the storage type. Of a shard, other ranks' parts are theirs to
  // round.
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
