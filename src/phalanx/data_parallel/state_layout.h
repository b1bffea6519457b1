#pragma once
// Who has what of a rank's states: for every range of every parameter where it lies, which rank of
// data parallelism updates it, how far its gradient is summed, and which rank counts and writes it.
// Computed once; gradients, main parameters, moments, weights, norms and checkpoints are views of
// it.
//
// How much is cut over the ranks of data parallelism is a stage of ZeRO (Rajbhandari et al., 2020):
// nothing (0), main parameters and moments (1), gradients too (2), weights too (3). Of one rank
// gradients and weights are "cut" likewise, where they are whole for their passes alone.
//
// What a rank updates is its shard. It is worked on by tiles: ranges that cross no bucket, so that
// some may lie in files and come to memory one after the other (ZeRO-Infinity; Rajbhandari et al.,
// 2021).

#include <cstdint>
#include <vector>

#include "phalanx/data_parallel/flat_layout.h"

namespace phalanx {

inline constexpr std::int64_t kStateTile = std::int64_t{4} << 20;

// How a rank's states are cut.
struct StateCut {
  // The ranks that share one copy of the states, and this one's number among them.
  int rank = 0;
  int ranks = 1;
  std::int64_t bucket_size = 0;  // elements of a message; 0: one for each group of parameters
  bool updates = true;           // else there are no main parameters
  bool gradients = false;        // gradients are whole for their passes alone
  bool weights = false;          // likewise weights, if other ranks or a file have the rest
  double states_in_files = 0.0;  // share of the tiles whose gradients (if cut), main parameters and
                                 // moments lie in files
  bool weights_in_files = false;
  std::int64_t tile = kStateTile;  // elements, at most
  // Of several copies of the states over data parallelism, this rank's.
  int replica = 0;
  // Of what a tensor-parallel group has copies of, its first rank's counts.
  bool first_tensor_rank = true;
  ParamGroups groups = {};  // empty: one for each chunk
};

class StateLayout {
 public:
  // Of a part of a model: `places` in the whole. The table must outlive this.
  StateLayout(const nn::ParamTable& table, ModelPlaces places, StateCut cut = {});
  // Of a table that is the whole model.
  explicit StateLayout(const nn::ParamTable& table, StateCut cut = {});

  const nn::ParamTable& table() const { return *table_; }
  const ModelPlaces& places() const { return places_; }
  const FlatLayout& flat() const { return flat_; }
  const ParamGroups& groups() const { return cut_.groups; }
  int group(ParamId id) const { return cut_.groups.of_parameter[static_cast<std::size_t>(id)]; }

  // What is cut over the ranks of data parallelism.
  bool is_sharded() const { return cut_.ranks > 1; }
  bool cuts_gradients() const { return cut_.gradients; }
  bool cuts_weights() const;
  // Of a group: whether its weights are here only while passes need them.
  bool cuts_weights(int group) const {
    return cut_.weights && (is_sharded() || cut_.weights_in_files) &&
           !cut_.groups.stays[static_cast<std::size_t>(group)];
  }
  bool updates() const { return cut_.updates; }

  // What is summed, and gathered, as one message: a range of the flat buffers within one group.
  struct Bucket {
    FlatRange range;
    int group = 0;
    FlatRange own;           // what this rank updates; without a cut all of it
    std::int64_t local = 0;  // where that begins in the shard
    // Where its weights begin in their buffer, which has all of the bucket or, of weights that are
    // cut, this rank's own.
    std::int64_t weights = 0;
  };
  const std::vector<Bucket>& buckets() const { return buckets_; }
  // Buckets that hold a part of the parameter.
  const std::vector<std::size_t>& buckets_of(ParamId id) const {
    return buckets_of_[static_cast<std::size_t>(id)];
  }
  // What this rank updates: tile by tile, and parameter by parameter.
  struct Tile {
    std::size_t bucket = 0;
    FlatRange local;              // of the shard
    bool states_in_file = false;  // gradients (if cut), main parameters, moments
    bool weights_in_file = false;
    std::int64_t memory = 0;  // where its states begin, if they lie in memory
    std::vector<Segment> segments;
  };
  const std::vector<Tile>& tiles() const { return tiles_; }
  const Tile& tile(const Segment& segment) const {
    return tiles_[static_cast<std::size_t>(segment.tile)];
  }
  // In ParamId order, then by position; each of one tile.
  const std::vector<Segment>& segments() const { return segments_; }
  std::int64_t shard_elements() const { return shard_elements_; }
  // Those whose states lie in memory, and those of the largest tile that is in a file.
  std::int64_t memory_elements() const { return memory_elements_; }
  std::int64_t largest_tile_in_file() const;
  bool has_files() const { return cut_.states_in_files > 0.0 || cut_.weights_in_files; }
  std::int64_t weight_elements() const { return weight_elements_; }
  // Where a parameter whose weights stay begins in the buffer of weights.
  std::int64_t weight_offset(ParamId id) const;

  // Of the ranks with a part of one copy of the model, those that have the same of a parameter:
  // whether this one stands for them, in norms and in checkpoints.
  bool counts(ParamId id) const {
    return places_.counted[static_cast<std::size_t>(id)] &&
           ((*table_)[id].tensor_parallel || cut_.first_tensor_rank);
  }
  // Whether it stands for all ranks of the world, in what it updates or, of a whole weight, in what
  // all ranks of data parallelism have.
  bool writes_states(ParamId id) const { return counts(id) && cut_.replica == 0; }
  bool writes_weight(ParamId id) const { return writes_states(id) && cut_.rank == 0; }

 private:
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
  std::int64_t shard_elements_ = 0;
  std::int64_t memory_elements_ = 0;
  std::int64_t weight_elements_ = 0;
};

}  // namespace phalanx
