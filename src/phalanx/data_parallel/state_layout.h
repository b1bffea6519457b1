#pragma once
// Which rank has which states. For every range of every parameter it tells where the range lies,
// which data-parallel rank updates it, which ranks sum its gradient, and which rank counts it in
// norms and writes it to checkpoints. It is computed once and used for gradients, main parameters,
// moments, weights, norms and checkpoints.
//
// ZeRO's stages (Rajbhandari et al., 2020) name what is cut over data-parallel ranks: nothing (0),
// main parameters and moments (1), also gradients (2), also weights (3). On a single rank, "cut"
// gradients or weights are whole only during the passes that use them.
//
// A parameter that is not trained has no states but its weight, which is whole on every rank that
// has the parameter. These weights lie behind the others in the buffer of weights.
//
// A rank's shard is the part that it updates, tile by tile. A tile lies in one bucket. It may be in
// a file, which is read for its update (ZeRO-Infinity; Rajbhandari et al., 2021).

#include <cstdint>
#include <vector>

#include "phalanx/data_parallel/flat_layout.h"

namespace phalanx {

inline constexpr std::int64_t kStateTile = std::int64_t{4} << 20;

// This rank among those that have the same part of the parameters of one reduction domain.
struct DomainCut {
  // Its number among the ranks that share one copy of the states, and their count.
  int rank = 0;
  int ranks = 1;
  int replica = 0;   // the number of this rank's copy of the states
  int replicas = 1;  // how many copies there are
  // It is the first rank of the group over which parameters are cut: of the tensor-parallel ranks,
  // or of the expert-tensor ranks.
  bool first_tensor_rank = true;
};

// How the states are cut, and this rank's part.
struct StateCut {
  PerDomain<DomainCut> domains = {};
  std::int64_t bucket_size = 0;  // elements of a message; 0: one message for each group
  bool updates = true;           // false: there are no main parameters
  bool gradients = false;        // gradients are whole only during passes that add to them
  bool weights = false;          // weights are whole only during passes that read them
  double states_in_files = 0.0;  // share of the tiles whose gradients (if cut), main parameters and
                                 // moments lie in files
  bool weights_in_files = false;
  std::int64_t tile = kStateTile;  // elements, at most
  ParamGroups groups = {};         // empty: chunk_groups()
};

class StateLayout {
 public:
  // `table` is a part of a model with these places in the whole; it must outlive this.
  StateLayout(const nn::ParamTable& table, ModelPlaces places, StateCut cut = {});
  // The table is the whole model.
  explicit StateLayout(const nn::ParamTable& table, StateCut cut = {});

  const nn::ParamTable& table() const { return *table_; }
  const ModelPlaces& places() const { return places_; }
  const FlatLayout& flat() const { return flat_; }
  const ParamGroups& groups() const { return cut_.groups; }
  // -1: the parameter is not trained.
  int group(ParamId id) const { return cut_.groups.of_parameter[static_cast<std::size_t>(id)]; }

  ReductionDomain domain(int group) const {
    return cut_.groups.domain[static_cast<std::size_t>(group)];
  }
  // Whether several ranks share one copy of the states of a domain, and of any.
  bool is_sharded(ReductionDomain domain) const { return cut_.domains[domain].ranks > 1; }
  bool is_sharded() const {
    return is_sharded(ReductionDomain::kDense) || is_sharded(ReductionDomain::kExpert);
  }
  bool cuts_gradients() const { return cut_.gradients; }
  bool cuts_weights() const;
  // Whether the weights of a group are whole only while passes read them.
  bool cuts_weights(int group) const {
    return cut_.weights && (is_sharded(domain(group)) || cut_.weights_in_files) &&
           !cut_.groups.stays[static_cast<std::size_t>(group)];
  }
  bool updates() const { return cut_.updates; }

  // A range of the flat buffers that is summed and gathered as one message. It lies in one group.
  struct Bucket {
    FlatRange range;
    int group = 0;
    FlatRange own;           // this rank updates it; all, if states are not cut
    std::int64_t local = 0;  // where `own` begins in the shard
    // Where its weights start in the buffer of weights: the whole bucket, or only `own` if weights
    // are cut.
    std::int64_t weights = 0;
  };
  const std::vector<Bucket>& buckets() const { return buckets_; }
  // The buckets that contain a part of the parameter.
  const std::vector<std::size_t>& buckets_of(ParamId id) const {
    return buckets_of_[static_cast<std::size_t>(id)];
  }
  // A piece of the shard.
  struct Tile {
    std::size_t bucket = 0;
    FlatRange local;              // of the shard
    bool states_in_file = false;  // gradients (if cut), main parameters, moments
    bool weights_in_file = false;
    std::int64_t memory = 0;  // where its states start in memory, if they are there
    std::vector<Segment> segments;
  };
  const std::vector<Tile>& tiles() const { return tiles_; }
  const Tile& tile(const Segment& segment) const {
    return tiles_[static_cast<std::size_t>(segment.tile)];
  }
  // The segments of the shard in ParamId order, then by position. Each lies in one tile.
  const std::vector<Segment>& segments() const { return segments_; }
  std::int64_t shard_elements() const { return shard_elements_; }
  // Elements with states in memory.
  std::int64_t memory_elements() const { return memory_elements_; }
  std::int64_t largest_tile_in_file() const;
  bool has_files() const { return cut_.states_in_files > 0.0 || cut_.weights_in_files; }
  std::int64_t weight_elements() const { return weight_elements_; }
  // Parameters that are not trained, and states of layers, as segments outside the shard: `flat`,
  // `local` and `memory` are -1, and the tile is no number of tiles(). States do not lie in the
  // buffer of weights either, so their `weight` is -1, too.
  const std::vector<Segment>& frozen() const { return frozen_; }
  // Where a parameter whose weights are not cut starts in the buffer of weights.
  std::int64_t weight_offset(ParamId id) const;

  // Several ranks may hold the same elements of a parameter: stages that share it, tensor-parallel
  // ranks with copies of it or of some rows, and data-parallel ranks. One of them counts the
  // elements in norms, and one writes them to checkpoints.
  //
  // Of the stages that share a parameter, one sums its elements for norms. It sums this many, from
  // the start of the local part; a tensor-parallel neighbour sums the others.
  bool is_summed_by_stage(ParamId id) const {
    return places_.counted[static_cast<std::size_t>(id)];
  }
  std::int64_t summed_elements(ParamId id) const {
    return is_summed_by_stage(id) ? counted_count((*table_)[id]) : 0;
  }
  // Whether this rank's sum counts in norms: on each tensor-parallel (of experts: expert-tensor)
  // rank if the parameter is cut over them, else only on the first.
  bool counts(ParamId id) const {
    const ParamSpec& spec = (*table_)[id];
    return is_summed_by_stage(id) &&
           (spec.cut_over.has(Axis::kTensor) || cut_.domains[spec.domain].first_tensor_rank);
  }
  // Whether this rank writes a tile of its shard where the copies of the states take turns.
  bool writes_in_turn(int tile) const {
    const DomainCut& cut = domain_of_tile(tile);
    return tile % cut.replicas == cut.replica;
  }
  // How many copies of a tile there are.
  int copies(int tile) const { return domain_of_tile(tile).replicas; }
  int copies(ReductionDomain domain) const { return cut_.domains[domain].replicas; }
  // Whether this is the first copy of a tile, and of a parameter's states the first rank of those
  // that share it.
  bool is_first_copy(int tile) const { return domain_of_tile(tile).replica == 0; }
  bool is_first_rank(ParamId id) const {
    const DomainCut& cut = cut_.domains[(*table_)[id].domain];
    return cut.replica == 0 && cut.rank == 0;
  }

 private:
  const DomainCut& domain_of_tile(int tile) const {
    const std::size_t bucket = tiles_[static_cast<std::size_t>(tile)].bucket;
    return cut_.domains[domain(buckets_[bucket].group)];
  }
  void place_frozen();
  void cut_buckets_into_tiles();
  void place_in_files();
  std::int64_t weight_place(const Segment& segment) const;

  const nn::ParamTable* table_;
  ModelPlaces places_;
  StateCut cut_;
  FlatLayout flat_;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<std::size_t>> buckets_of_;  // by ParamId
  std::vector<Tile> tiles_;
  std::vector<Segment> segments_;
  std::vector<Segment> frozen_;
  std::int64_t shard_elements_ = 0;
  std::int64_t memory_elements_ = 0;
  std::int64_t weight_elements_ = 0;
};

// Trained elements that the ranks together count but the model does not have: vocabulary padding.
// `whole` is the model of one of this many tensor-parallel ranks, of experts of expert-tensor
// ranks.
std::int64_t counted_padding(const nn::ParamTable& whole, const PerDomain<int>& tensor_ranks);

}  // namespace phalanx
