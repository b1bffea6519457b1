#pragma once
// Where the parameters of a rank lie in its flat buffers, and how the buffers are cut over
// data-parallel ranks. Parameters lie in reverse order of registration, which is about the order in
// which their gradients become ready, each at a multiple of 64 elements. Buckets, and the shards of
// a distributed optimizer, are plain ranges: they need not end where a parameter ends. Parameters
// that are reduced and gathered together are a group. Each group has a region of its own, the last
// group the first one, and no bucket lies in two regions, because groups become complete at
// different times. By default a group is a chunk of a pipeline rank.
//
// All cuts are multiples of ops::kSumBlock elements, and a parameter has the same offset within its
// block as in the layout of the whole model. So the sums of its blocks, and with them the gradient
// norm, have the same bits under any cut and in any pipeline. This needs gaps of less than a block:
// before the first parameter of a region, and before each parameter that does not follow its
// predecessor in the whole model.

#include <cstdint>
#include <vector>

#include "phalanx/data_parallel/model_places.h"
#include "phalanx/nn/param_table.h"

namespace phalanx {

// Elements [begin, begin + count) of a flat buffer.
struct FlatRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t end() const { return begin + count; }
};

// Which parameters are reduced and gathered together.
struct ParamGroups {
  std::vector<int> of_parameter;  // by ParamId
  std::vector<int> chunk;         // by group: whose parameters they are
  // By group: whether its weights stay whole on every rank although others are cut, and its states
  // in memory although others lie in files.
  std::vector<bool> stays;

  int size() const { return static_cast<int>(chunk.size()); }
};
ParamGroups chunk_groups(const nn::ParamTable& table);

struct FlatLayout {
  std::vector<std::int64_t> offsets;  // by ParamId
  std::vector<FlatRange> regions;     // by group; consecutive, the last group's first
  std::int64_t elements = 0;          // padding at the end included

  // The group whose region has the element.
  int group_at(std::int64_t element) const;
};

// Regions begin at multiples of shards * ops::kSumBlock elements; with `shards` > 1 the end is
// padded likewise, so that each can be cut into that many equal parts.
FlatLayout flat_layout(const nn::ParamTable& table, const ModelPlaces& places,
                       const ParamGroups& groups, int shards);
// Each chunk is a group.
FlatLayout flat_layout(const nn::ParamTable& table, const ModelPlaces& places, int shards = 1);
// The table is the whole model.
FlatLayout flat_layout(const nn::ParamTable& table, int shards = 1);

// Consecutive ranges of about `bucket_size` elements, each in one region (0: the whole region).
// Each can be cut into `shards` equal parts.
std::vector<FlatRange> cut_buckets(const FlatLayout& layout, std::int64_t bucket_size, int shards);

// Megatron's default: 40 million elements, more where many ranks share a reduction.
std::int64_t default_bucket_size(int data_parallel_size);

// One rank's part of every bucket, in order.
std::vector<FlatRange> shard_of(const std::vector<FlatRange>& buckets, int rank, int shards);

// A part of one parameter within a rank's shard. The shard has no gaps between its ranges.
struct Segment {
  ParamId id = 0;
  std::int64_t begin = 0;  // within the parameter
  std::int64_t count = 0;
  std::int64_t flat = 0;    // within the flat buffers
  std::int64_t local = 0;   // within the shard
  std::int64_t weight = 0;  // within the buffer of weights: the same as `flat` if they are not cut
  int tile = 0;             // the tile of the shard that it lies in
  std::int64_t memory = 0;  // within the part of the shard that lies in memory
};

// In ParamId order, then by position.
std::vector<Segment> segments_of(const nn::ParamTable& table, const FlatLayout& layout,
                                 const std::vector<FlatRange>& shard);

// The sum of the ranges' counts.
std::int64_t total_count(const std::vector<FlatRange>& ranges);

}  // namespace phalanx
