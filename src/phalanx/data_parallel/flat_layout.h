#pragma once
// The positions of a rank's parameters in its flat buffers, and how data-parallel ranks share the
// buffers. Parameters lie in reverse order of registration, about the order in which their
// gradients become ready, each at a multiple of 64 elements. Buckets and shards are plain ranges
// and need not end where a parameter ends. A group is the parameters that are reduced and gathered
// together, by default those of a chunk that have the same reduction domain. Each group has its own
// region, the last group first, and no bucket spans two regions, because groups become complete at
// different times and may be cut over different ranks. Parameters that are not trained have no
// place here (state_layout.h).
//
// All cuts are multiples of ops::kSumBlock elements, and a parameter has the same offset within its
// sum block as in the whole model's layout. So block sums, and the gradient norm, have the same
// bits under any cut and pipeline. This needs gaps of less than a block before the first parameter
// of a region, and before each parameter that does not follow its predecessor in the whole model.

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
  std::vector<int> of_parameter;        // by ParamId; -1: it is not trained
  std::vector<int> chunk;               // by group
  std::vector<ReductionDomain> domain;  // by group: that of all its parameters
  // By group: whether its weights stay whole on every rank and its states stay in memory, even if
  // others are cut or lie in files.
  std::vector<bool> stays;

  int size() const { return static_cast<int>(chunk.size()); }
};
ParamGroups chunk_groups(const nn::ParamTable& table);

struct FlatLayout {
  std::vector<std::int64_t> offsets;  // by ParamId; -1: it is not trained
  std::vector<FlatRange> regions;     // by group; adjacent, the last group's first
  std::vector<int> shards;            // by group
  std::int64_t elements = 0;          // with padding at the end

  // The group whose region has the element.
  int group_at(std::int64_t element) const;
};

// A region of n shards has a multiple of n * ops::kSumBlock elements, so that it can be cut into
// equal parts. With one shard only its start is a multiple of ops::kSumBlock.
FlatLayout flat_layout(const nn::ParamTable& table, const ModelPlaces& places,
                       const ParamGroups& groups, const PerDomain<int>& shards);
// The groups are chunk_groups(), and parameters of all domains have as many shards.
FlatLayout flat_layout(const nn::ParamTable& table, const ModelPlaces& places, int shards = 1);
// The table is the whole model.
FlatLayout flat_layout(const nn::ParamTable& table, int shards = 1);

// Adjacent ranges of about `bucket_size` elements, each in one region (0: the whole region). Each
// can be cut into as many equal parts as its region has shards.
std::vector<FlatRange> cut_buckets(const FlatLayout& layout, std::int64_t bucket_size);

// Megatron's default: 40 million elements, more if many ranks share a reduction.
std::int64_t default_bucket_size(int data_parallel_size);

// One rank's part of a bucket.
FlatRange shard_of(const FlatRange& bucket, int rank, int shards);

// A part of one parameter within a rank's shard. The shard has no gaps between its ranges.
struct Segment {
  ParamId id = 0;
  std::int64_t begin = 0;  // within the parameter
  std::int64_t count = 0;
  std::int64_t flat = 0;    // within the flat buffers
  std::int64_t local = 0;   // within the shard
  std::int64_t weight = 0;  // in the buffer of weights; `flat` if weights are not cut
  int tile = 0;             // the tile of the shard that has it
  std::int64_t memory = 0;  // in the part of the shard that is in memory
};

// In ParamId order, then by position.
std::vector<Segment> segments_of(const nn::ParamTable& table, const FlatLayout& layout,
                                 const std::vector<FlatRange>& shard);

// The sum of the ranges' counts.
std::int64_t total_count(const std::vector<FlatRange>& ranges);

}  // namespace phalanx
