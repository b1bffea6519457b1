#pragma once
// Parameters as dense ranges of flat buffers (flat_layout.h). With a distributed optimizer a rank
// keeps fp32 main parameters of its shard only. If weights are cut too, it keeps only its shard of
// them, in memory or in a file, and passes read gathered weights (weight_gathers.h).

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/data_parallel/tile_file.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

// The parameters in a flat buffer of the layout, by ParamId; an empty tensor for one that is not
// trained.
std::vector<Tensor> parameter_views(const nn::ParamTable& table, const FlatLayout& layout,
                                    const Tensor& flat);

// The storages of states in files, and the memory through which they are read and written; null
// without such states.
struct StateFiles {
  Storage* states = nullptr;
  Storage* weights = nullptr;
  TileStaging* staging = nullptr;
};

class ParameterStore {
 public:
  // Keeps weights in their storage type, and fp32 main parameters of the shard if that is a 16-bit
  // type.
  ParameterStore(StateLayout states, Arena& parameters, Arena& main_parameters,
                 const StateFiles& files = {});

  const StateLayout& states() const { return states_; }
  const nn::ParamTable& table() const { return states_.table(); }

  // The weights for passes; an empty tensor for a parameter whose weights are cut.
  nn::Weights weights() const { return {weights_}; }
  const Tensor& weight(ParamId id) const { return weights_[static_cast<std::size_t>(id)]; }
  // All weights that this rank keeps, without states of layers.
  const Tensor& flat() const { return flat_; }
  // A bucket's weights: all of them, or this rank's part if they are cut.
  Tensor weights(const StateLayout::Bucket& bucket) const;
  bool has_main_parameters() const { return has_main_parameters_; }
  // A segment in storage type and in full precision; the same tensor for a full storage type.
  // InternalError if it is in a file.
  Tensor weight(const Segment& segment) const;
  Tensor main(const Segment& segment) const;
  // For visit_tiles(): main parameters, then weights.
  std::array<TileAccess, 2> accesses(bool reads, bool writes) const;
  // A segment, given the tensors of these two accesses.
  Tensor weight(const Segment& segment, Tensors tile) const;
  Tensor main(const Segment& segment, Tensors tile) const;
  const TileFile* weight_file() const { return weight_file_.get(); }
  TileStaging* staging() const { return staging_; }
  // The whole trained parameter in full precision, if nothing is sharded.
  Tensor main(ParamId id) const;

  // Draws every parameter by its specification and global coordinates, so every layout starts from
  // the same numbers.
  void initialise(Context& context, PhiloxKey key) const;
  // Zeros weights and main parameters before a file without padding is read into them.
  void clear(Context& context) const;
  // Rounds this rank's shard of the main parameters to the storage type.
  void round_to_storage(Context& context) const;

 private:
  StateLayout states_;
  bool has_main_parameters_;
  Tensor flat_;
  StateColumn mains_;
  std::unique_ptr<TileFile> weight_file_;  // of weights in files
  TileStaging* staging_;
  std::vector<Tensor> weights_;
};

}  // namespace phalanx
