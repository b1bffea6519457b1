#pragma once
// The shard as ranges that one call sums or updates, and the tables of segments for these calls
// (ops/segments.h). A table counts elements as the shard does.

#include <vector>

#include "phalanx/data_parallel/state_layout.h"
#include "phalanx/ops/segments.h"

namespace phalanx {

// Which settings a segment has: the row of a table of settings.
struct SettingGroup {
  static constexpr std::int64_t kCount = 4;
  static constexpr std::int64_t of(bool decoupled_rate, bool decays) {
    return 2 * static_cast<std::int64_t>(decoupled_rate) + static_cast<std::int64_t>(decays);
  }
};

struct UpdateRange {
  FlatRange local;           // elements of the shard
  std::int64_t flat = 0;     // where they begin in the flat buffers
  std::int64_t memory = 0;   // in the states that are in memory
  std::int64_t weights = 0;  // in the buffer of weights
  bool in_memory = true;     // false: some of it lies in a file
  FlatRange updated;         // rows of the table of updates
  FlatRange summed;          // rows of the table of sums
};

class UpdateRanges {
 public:
  // The layout must outlive this.
  UpdateRanges(const StateLayout& states, Arena& arena);

  // Once, before the tables are used.
  void upload(Context& context) const;

  // One for each tile.
  const std::vector<UpdateRange>& tiles() const { return tiles_; }
  // As few as there can be: neighbouring tiles that are neighbours in every buffer, all in memory.
  const std::vector<UpdateRange>& joined() const { return joined_; }

  // All segments of a range; a group is a SettingGroup.
  ops::SegmentTable updates(const UpdateRange& range) const;
  // What counts in norms; a group is the place of the first block's sum among blocks().
  ops::SegmentTable sums(const UpdateRange& range) const;
  // From blocks() sums to those of parameters, by their number in the whole model: of the
  // parameters of a domain that this rank counts.
  ops::SegmentTable totals(ReductionDomain domain) const;
  std::int64_t blocks() const { return blocks_.expert.end(); }
  // Those of the parameters of a domain.
  const FlatRange& blocks(ReductionDomain domain) const { return blocks_[domain]; }

 private:
  void add_parameters(std::vector<std::int64_t>& first_blocks);
  void add_tile(const StateLayout::Tile& tile, const std::vector<std::int64_t>& first_blocks);
  void join_tiles();

  const StateLayout* states_;
  std::vector<UpdateRange> tiles_, joined_;
  PerDomain<FlatRange> blocks_;
  PerDomain<FlatRange> domain_totals_;  // rows of the table of totals
  std::vector<ops::Segment> updates_, sums_, totals_;
  Tensor updates_device_, sums_device_, totals_device_;
};

}  // namespace phalanx
