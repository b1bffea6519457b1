#include "phalanx/saving/load_plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace phalanx {
namespace {

// The ranks that need the same, and the boxes of all such groups, by parameter.
class NeedIndex {
 public:
  explicit NeedIndex(std::span<const std::vector<NeededBox>> needs) {
    std::map<std::vector<std::int64_t>, std::size_t> known;
    for (std::size_t rank = 0; rank < needs.size(); ++rank) {
      std::vector<std::int64_t> numbers;
      for (const auto& [parameter, box] : needs[rank]) {
        for (const std::int64_t n :
             {std::int64_t{parameter}, box.row, box.column, box.rows, box.columns}) {
          numbers.push_back(n);
        }
      }
      const auto [group, is_new] = known.try_emplace(std::move(numbers), groups_.size());
      if (is_new) {
        groups_.emplace_back();
        for (const auto& [parameter, box] : needs[rank]) {
          if (parameter >= std::ssize(boxes_)) {
            boxes_.resize(static_cast<std::size_t>(parameter) + 1);
          }
          boxes_[static_cast<std::size_t>(parameter)].push_back({box, groups_.size() - 1, 0});
        }
      }
      groups_[group->second].push_back(static_cast<int>(rank));
    }
    for (auto& boxes : boxes_) {
      std::ranges::stable_sort(boxes, {}, [](const Box& b) { return b.box.row; });
      std::int64_t end = 0;
      for (Box& b : boxes) b.end_so_far = end = std::max(end, b.box.row + b.box.rows);
    }
  }

  const std::vector<std::vector<int>>& groups() const { return groups_; }

  // What each group needs of a chunk; only groups that need something, in their order.
  std::map<std::size_t, LoadPlan::Share> shares(
      const StoredChunk& chunk,
      const std::function<int(const Manifest::Entry&)>& parameter_of) const {
    std::map<std::size_t, LoadPlan::Share> shares;
    for (std::size_t p = 0; p < chunk.pieces.size(); ++p) {
      const Manifest::Entry* entry = chunk.pieces[p].entry;
      const MatrixBox& piece = chunk.pieces[p].box;
      const auto parameter = static_cast<std::size_t>(parameter_of(*entry));
      if (parameter >= boxes_.size()) continue;
      const auto& boxes = boxes_[parameter];
      // The rows of boxes before this one end above the piece.
      auto next = std::ranges::partition_point(
          boxes, [&](const Box& b) { return b.end_so_far <= piece.row; });
      for (; next != boxes.end() && next->box.row < piece.row + piece.rows; ++next) {
        const MatrixBox cut = overlap(piece, next->box);
        if (cut.count() == 0) continue;
        LoadPlan::Share& share = shares[next->group];
        share.cuts.push_back({p, cut});
        share.bytes += cut.count() * size_of(entry->dtype);
      }
    }
    for (auto& [group, share] : shares) share.ranks = groups_[group];
    return shares;
  }

 private:
  struct Box {
    MatrixBox box;
    std::size_t group = 0;
    std::int64_t end_so_far = 0;  // of the rows of all boxes up to this one
  };
  std::vector<std::vector<int>> groups_;
  std::vector<std::vector<Box>> boxes_;  // by parameter, by row
};

std::int64_t bytes_of(const StoredUnit& unit) {
  std::int64_t bytes = 0;
  for (const StoredChunk& chunk : unit) bytes += chunk.bytes;
  return bytes;
}

}  // namespace

LoadPlan load_plan(std::span<const StoredUnit> units,
                   const std::function<int(const Manifest::Entry&)>& parameter_of,
                   std::span<const std::vector<NeededBox>> needs, int rank) {
  const NeedIndex index(needs);
  LoadPlan plan;
  std::vector<std::int64_t> to_read(needs.size());  // by rank: bytes,
  std::vector<std::size_t> rounds(needs.size());    // and chunks
  for (const StoredUnit& unit : units) {
    std::vector<std::map<std::size_t, LoadPlan::Share>> shares;  // by chunk
    std::map<std::size_t, std::int64_t> needed;                  // by group
    for (const StoredChunk& chunk : unit) {
      shares.push_back(index.shares(chunk, parameter_of));
      for (const auto& [group, share] : shares.back()) needed[group] += share.bytes;
    }
    if (needed.empty()) continue;
    std::int64_t most = 0;
    for (const auto& [group, bytes] : needed) most = std::max(most, bytes);
    int reader = -1;
    for (const auto& [group, bytes] : needed) {
      if (bytes < most) continue;
      for (const int candidate : index.groups()[group]) {
        const auto has = to_read[static_cast<std::size_t>(candidate)];
        if (reader < 0 || has < to_read[static_cast<std::size_t>(reader)]) reader = candidate;
      }
    }
    to_read[static_cast<std::size_t>(reader)] += bytes_of(unit);
    for (std::size_t c = 0; c < unit.size(); ++c) {
      const std::size_t round = rounds[static_cast<std::size_t>(reader)]++;
      if (reader == rank) {
        LoadPlan::Read& read = plan.reads.emplace_back(LoadPlan::Read{&unit[c], {}});
        std::int64_t sent = 0;
        for (auto& [group, share] : shares[c]) {
          if (share.ranks != std::vector{rank}) sent += share.bytes;
          read.shares.push_back(std::move(share));
        }
        plan.largest_chunk = std::max(plan.largest_chunk, unit[c].bytes);
        plan.largest_sent = std::max(plan.largest_sent, sent);
        continue;
      }
      for (auto& [group, share] : shares[c]) {
        if (!std::ranges::binary_search(share.ranks, rank)) continue;
        if (plan.receipts.size() <= round) plan.receipts.resize(round + 1);
        plan.receipts[round].push_back({.from = reader,
                                        .chunk = &unit[c],
                                        .cuts = std::move(share.cuts),
                                        .bytes = share.bytes});
        plan.largest_received = std::max(plan.largest_received, share.bytes);
      }
    }
  }
  for (auto& receipts : plan.receipts) {
    std::ranges::sort(receipts, {}, &LoadPlan::Receipt::from);
  }
  return plan;
}

}  // namespace phalanx
