#include "phalanx/tokenizer/bpe_merges.h"

#include <algorithm>
#include <array>
#include <functional>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::uint32_t kNoRank = PairMap::kNone;
// Up to so many ids it is faster to look through all pairs again than to keep a heap.
constexpr std::size_t kFew = 48;

}  // namespace

BpeMerges::BpeMerges(std::span<const BpeMerge> merges, Order order) : order_(order) {
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    add(merges[rank], static_cast<std::uint32_t>(rank));
  }
}

void BpeMerges::add(const BpeMerge& merge, std::uint32_t rank) {
  if (rank >= results_.size()) results_.resize(std::size_t{rank} + 1);
  results_[rank] = merge.result;
  ranks_.find_or_insert(PairMap::key(merge.left, merge.right), rank);
}

std::size_t BpeMerges::apply_to_few(std::span<std::int32_t> ids) const {
  constexpr std::uint32_t kChanged = kNoRank - 1;  // to be looked up again
  std::array<std::uint32_t, kFew> ranks;           // of the pair that begins at each place
  std::size_t count = ids.size();
  const auto look_up = [&](std::size_t at) {
    ranks[at] = at + 1 < count ? rank_of(ids[at], ids[at + 1]) : kNoRank;
  };
  for (std::size_t at = 0; at < count; ++at) look_up(at);
  while (true) {
    const auto* const best = std::min_element(ranks.data(), ranks.data() + count);
    const std::uint32_t rank = *best;
    if (rank == kNoRank) return count;
    auto write = static_cast<std::size_t>(best - ranks.data());
    bool merging = true;
    const std::size_t first = write;
    for (std::size_t read = write; read < count; ++read, ++write) {
      ids[write] = ids[read];
      ranks[write] = ranks[read];
      if (!merging || ranks[read] != rank) continue;
      ids[write] = results_[rank];
      ranks[write] = kChanged;
      if (write > 0) ranks[write - 1] = kChanged;
      ++read;
      merging = order_ == Order::kRankByRank;
    }
    count = write;
    for (std::size_t at = first == 0 ? 0 : first - 1; at < count; ++at) {
      if (ranks[at] == kChanged) look_up(at);
    }
  }
}

class BpeMerges::LongList {
 public:
  LongList(const BpeMerges& merges, Workspace& workspace)
      : merges_(merges),
        nodes_(workspace.nodes_),
        candidates_(workspace.candidates_),
        changed_(workspace.changed_) {}

  std::size_t merge(std::span<std::int32_t> ids) {
    load(ids);
    while (!candidates_.empty()) {
      const auto rank = static_cast<std::uint32_t>(candidates_.front() >> 32);
      changed_.clear();
      do {
        merge_first();
      } while (merges_.order_ == Order::kRankByRank && !candidates_.empty() &&
               candidates_.front() >> 32 == rank);
      for (const auto at : changed_) {
        if (!look_up(at)) continue;
        std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>{});
      }
    }
    std::size_t count = 0;
    for (std::uint32_t at = 0; at != kNoPlace; at = nodes_[at].next) ids[count++] = nodes_[at].id;
    return count;
  }

 private:
  static constexpr std::uint32_t kNoPlace = 0xffffffffU;
  static constexpr std::int32_t kMerged = -1;  // the id of a node that its left neighbour took in

  void load(std::span<const std::int32_t> ids) {
    nodes_.clear();
    candidates_.clear();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto at = static_cast<std::uint32_t>(i);
      nodes_.push_back(
          {ids[i], kNoRank, at == 0 ? kNoPlace : at - 1, i + 1 == ids.size() ? kNoPlace : at + 1});
    }
    for (std::uint32_t at = 0; at < nodes_.size(); ++at) look_up(at);
    std::make_heap(candidates_.begin(), candidates_.end(), std::greater<>{});
  }

  // Ranks the pair that begins at `at`. Where it has a rank it is appended to the candidates; the
  // heap is not restored.
  bool look_up(std::uint32_t at) {
    Workspace::Node& node = nodes_[at];
    node.rank = kNoRank;
    if (node.id == kMerged || node.next == kNoPlace) return false;
    node.rank = merges_.rank_of(node.id, nodes_[node.next].id);
    if (node.rank == kNoRank) return false;
    candidates_.push_back(std::uint64_t{node.rank} << 32 | at);
    return true;
  }

  // Merges the first candidate if it is still there. Pairs that this changed have no rank until
  // they are looked up.
  void merge_first() {
    const std::uint64_t candidate = candidates_.front();
    const auto rank = static_cast<std::uint32_t>(candidate >> 32);
    const auto at = static_cast<std::uint32_t>(candidate);
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>{});
    candidates_.pop_back();
    Workspace::Node& left = nodes_[at];
    if (left.rank != rank) return;  // out of date
    Workspace::Node& right = nodes_[left.next];
    left.id = merges_.results_[rank];
    left.next = right.next;
    left.rank = kNoRank;
    right.id = kMerged;
    right.rank = kNoRank;
    if (left.next != kNoPlace) nodes_[left.next].previous = at;
    if (left.previous != kNoPlace) {
      nodes_[left.previous].rank = kNoRank;
      changed_.push_back(left.previous);
    }
    changed_.push_back(at);
  }

  const BpeMerges& merges_;
  std::vector<Workspace::Node>& nodes_;
  std::vector<std::uint64_t>& candidates_;
  std::vector<std::uint32_t>& changed_;
};

std::size_t BpeMerges::apply(std::span<std::int32_t> ids, Workspace& workspace) const {
  if (ids.size() < 2) return ids.size();
  if (ids.size() <= kFew) return apply_to_few(ids);
  if (ids.size() >= kNoRank) {
    throw DataError("one word of {} parts; the limit is {}", ids.size(), kNoRank);
  }
  return LongList(*this, workspace).merge(ids);
}

}  // namespace phalanx
