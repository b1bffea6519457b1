#include "phalanx/optim/update_ranges.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

ops::SegmentTable rows_of(const std::vector<ops::Segment>& segments, const Tensor& device,
                          const FlatRange& rows) {
  return ops::SegmentTable{segments, device}.slice(rows.begin, rows.count);
}

// Whether `next` continues a range in every buffer.
bool continues(const UpdateRange& range, const UpdateRange& next) {
  const std::int64_t count = range.local.count;
  return range.in_memory && next.in_memory && range.local.end() == next.local.begin &&
         range.flat + count == next.flat && range.memory + count == next.memory &&
         range.weights + count == next.weights;
}

}  // namespace

UpdateRanges::UpdateRanges(const StateLayout& states, Arena& arena) : states_(&states) {
  std::vector<std::int64_t> first_blocks;
  add_parameters(first_blocks);
  for (const StateLayout::Tile& tile : states.tiles()) add_tile(tile, first_blocks);
  join_tiles();
  for (auto* table : {&updates_, &sums_, &totals_}) ops::number_blocks(*table);
  // Ranks that differ in their shard alone have one plan of memory, so the room is that of any
  // shard: a segment begins where a tile or a parameter does.
  const std::size_t parameters = states.table().specs().size();
  const auto reserve = [&](const std::vector<ops::Segment>& segments, std::size_t most) {
    return ops::allocate_segments(arena, most).slice(0, 0, std::ssize(segments));
  };
  updates_device_ = reserve(updates_, states.tiles().size() + parameters);
  sums_device_ = reserve(sums_, states.tiles().size() + parameters);
  totals_device_ = reserve(totals_, parameters);
}

// Every parameter's place among blocks(), domain by domain; parameters that another stage sums have
// none.
void UpdateRanges::add_parameters(std::vector<std::int64_t>& first_blocks) {
  first_blocks.resize(states_->table().specs().size());
  std::int64_t blocks = 0;
  for (const ReductionDomain domain : kReductionDomains) {
    blocks_[domain].begin = blocks;
    domain_totals_[domain].begin = std::ssize(totals_);
    for (ParamId id = 0; id < states_->table().size(); ++id) {
      const auto i = static_cast<std::size_t>(id);
      if (states_->table()[id].domain != domain) continue;
      first_blocks[i] = blocks;
      if (!states_->table().trains(id)) continue;
      const std::int64_t lead = states_->flat().offsets[i] % ops::kSumBlock;
      const std::int64_t count =
          states_->is_summed_by_stage(id) ? ops::sum_blocks(lead, states_->summed_elements(id)) : 0;
      if (states_->counts(id) && count > 0) {
        totals_.push_back({.begin = blocks, .count = count, .group = states_->places().global[i]});
      }
      blocks += count;
    }
    blocks_[domain].count = blocks - blocks_[domain].begin;
    domain_totals_[domain].count = std::ssize(totals_) - domain_totals_[domain].begin;
  }
}

void UpdateRanges::add_tile(const StateLayout::Tile& tile,
                            const std::vector<std::int64_t>& first_blocks) {
  const StateLayout::Bucket& bucket = states_->buckets()[tile.bucket];
  const FlatRange& kept = states_->cuts_weights(bucket.group) ? bucket.own : bucket.range;
  const std::int64_t flat = bucket.own.begin + tile.local.begin - bucket.local;
  UpdateRange range{.local = tile.local,
                    .flat = flat,
                    .memory = tile.memory,
                    .weights = bucket.weights + flat - kept.begin,
                    .in_memory = !tile.states_in_file && !tile.weights_in_file,
                    .updated = {std::ssize(updates_), 0},
                    .summed = {std::ssize(sums_), 0}};
  for (const Segment& segment : tile.segments) {
    const auto i = static_cast<std::size_t>(segment.id);
    const ParamSpec& spec = states_->table()[segment.id];
    updates_.push_back({.begin = segment.local,
                        .count = segment.count,
                        .group = SettingGroup::of(spec.decoupled_rate, spec.decays)});
    const std::int64_t summed =
        std::min(segment.count, states_->summed_elements(segment.id) - segment.begin);
    if (summed <= 0) continue;
    // Sums are taken on the grid of the flat buffers.
    PHALANX_CHECK((segment.flat - segment.local) % ops::kSumBlock == 0,
                  "{}: element {} of the shard is element {} of the flat buffers", spec.name,
                  segment.local, segment.flat);
    const std::int64_t block =
        segment.flat / ops::kSumBlock - states_->flat().offsets[i] / ops::kSumBlock;
    sums_.push_back({.begin = segment.local, .count = summed, .group = first_blocks[i] + block});
  }
  range.updated.count = std::ssize(updates_) - range.updated.begin;
  range.summed.count = std::ssize(sums_) - range.summed.begin;
  tiles_.push_back(range);
}

void UpdateRanges::join_tiles() {
  for (const UpdateRange& tile : tiles_) {
    if (joined_.empty() || !continues(joined_.back(), tile)) {
      joined_.push_back(tile);
      continue;
    }
    joined_.back().local.count += tile.local.count;
    joined_.back().updated.count += tile.updated.count;
    joined_.back().summed.count += tile.summed.count;
  }
}

void UpdateRanges::upload(Context& context) const {
  ops::upload_segments(context, {updates_, updates_device_});
  ops::upload_segments(context, {sums_, sums_device_});
  ops::upload_segments(context, {totals_, totals_device_});
}

ops::SegmentTable UpdateRanges::updates(const UpdateRange& range) const {
  return rows_of(updates_, updates_device_, range.updated);
}

ops::SegmentTable UpdateRanges::totals(ReductionDomain domain) const {
  return rows_of(totals_, totals_device_, domain_totals_[domain]);
}

ops::SegmentTable UpdateRanges::sums(const UpdateRange& range) const {
  return rows_of(sums_, sums_device_, range.summed);
}

}  // namespace phalanx
