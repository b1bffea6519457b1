#pragma once
// Where the parameters of a rank lie in its flat buffers, and how these are cut for data
// parallelism. Parameters lie in reverse order of registration, about the order in which their
// gradients become ready, each at a multiple of 64 elements; so buckets and the shards of a
// distributed optimizer are plain ranges, which ignore where one parameter ends and the next
// begins. Parameters that are reduced and gathered together are a group, which has a region of its
// own, the last group's first, and no bucket lies in two: the gradients of a group are complete at
// a time of their own. At first a group is a chunk of a pipeline rank.
//
// All cuts are on the grid of ops::kSumBlock elements, and a parameter lies on that grid as it does
// in the layout of the whole model; so the sums of its blocks, and with them the gradient norm,
// have the same bits under any cut and in any pipeline. The gaps that this needs are of less than a
// block each: in front of a region's first parameter, and of each that does not follow its
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
  // By group: whether its weights stay whole on every rank where the others' are cut, and all of
  // its states in memory where the others' lie in files.
  std::vector<bool> stays;

  int size() const { return static_cast<int>(chunk.size()); }
};
ParamGroups chunk_groups(const nn::ParamTable& table);

struct FlatLayout {
  std::vector<std::int64_t> offsets;  // by ParamId
  std::vector<FlatRange> regions;     // by group; consecutive, the last group's first
  std::int64_t elements = 0;          // padding at the end included

  // Whose region an element is in.
  int group_at(std::int64_t element) const;
};

// Regions begin at multiples of shards * ops::kSumBlock elements; with `shards` > 1 the end is
// padded likewise, so that each can be cut into that many equal parts.
FlatLayout flat_layout(const nn::ParamTable& table, const ModelPlaces& places,
                       const ParamGroups& groups, int shards);
// With a group for each chunk.
FlatLayout flat_layout(const nn::ParamTable& table, const ModelPlaces& places, int shards = 1);
// Of a table that is the whole model.
FlatLayout flat_layout(const nn::ParamTable& table, int shards = 1);

// Consecutive ranges of about `bucket_size` elements of one region each (0: one bucket a region),
// to be cut into `shards` equal parts.
std::vector<FlatRange> cut_buckets(const FlatLayout& layout, std::int64_t bucket_size, int shards);

// Megatron's default: 40 million elements, more where many ranks share a reduction.
std::int64_t default_bucket_size(int data_parallel_size);

// Of every bucket the part of one rank, in order.
std::vector<FlatRange> shard_of(const std::vector<FlatRange>& buckets, int rank, int shards);

// A part of one parameter within a rank's shard, which is kept without the gaps between its ranges.
struct Segment {
  ParamId id = 0;
  std::int64_t begin = 0;  // within the parameter
  std::int64_t count = 0;
  std::int64_t flat = 0;    // within the flat buffers
  std::int64_t local = 0;   // within the shard
  std::int64_t weight = 0;  // within the buffer of weights: as flat, where they are not cut
  int tile = 0;             // the one of the shard's tiles that it lies in
  std::int64_t memory = 0;  // within the part of the shard that lies in memory
};

// In ParamId order, then by position.
std::vector<Segment> segments_of(const nn::ParamTable& table, const FlatLayout& layout,
                                 const std::vector<FlatRange>& shard);

// The sum of the ranges' counts.
std::int64_t total_count(const std::vector<FlatRange>& ranges);

}  // namespace phalanx
