#pragma once
// Parameters as dense ranges of flat buffers (flat_layout.h). With a distributed optimizer a rank
// keeps fp32 main parameters for its shard alone, and where weights are cut too, of these its
// shard; passes then read what gathers bring (weight_gathers.h).

#include <vector>

#include "phalanx/data_parallel/state_layout.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

// What a flat buffer of the layout holds, by ParamId.
std::vector<Tensor> parameter_views(const nn::ParamTable& table, const FlatLayout& layout,
                                    const Tensor& flat);

class ParameterStore {
 public:
  // Parameters in their storage type; fp32 main parameters, of the shard, only where that is a
  // 16-bit type.
  ParameterStore(StateLayout states, Arena& parameters, Arena& main_parameters);

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
  Tensor weight(const Segment& segment) const {
    return flat_.slice(0, segment.weight, segment.count);
  }
  Tensor main(const Segment& segment) const;
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
  Tensor flat_, mains_;
  std::vector<Tensor> weights_;
};

}  // namespace phalanx
