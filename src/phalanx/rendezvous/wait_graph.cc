#include "phalanx/rendezvous/wait_graph.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace phalanx::rendezvous {
namespace {

using Kind = GraphRank::Kind;
using Edges = std::vector<std::vector<int>>;

struct Graph {
  const std::vector<GraphRank>& ranks;
  Edges missing;  // for each rank, the ranks that it waits for
  Edges waiters;  // for each rank, the ranks that wait for it
};

Graph make_graph(const std::vector<GraphRank>& ranks) {
  const int count = static_cast<int>(ranks.size());
  Graph graph{ranks, Edges(ranks.size()), Edges(ranks.size())};
  for (int rank = 0; rank < count; ++rank) {
    for (const int missed : ranks[rank].missing) {
      if (missed < 0 || missed >= count || missed == rank) continue;
      graph.missing[rank].push_back(missed);
      graph.waiters[missed].push_back(rank);
    }
  }
  return graph;
}

// Marks `from` and all ranks that the edges reach from there through ranks that `may_visit` allows.
template <typename MayVisit>
void visit(const Edges& edges, int from, const MayVisit& may_visit, std::vector<bool>& visited) {
  std::vector<int> open = {from};
  visited[from] = true;
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    for (const int next : edges[rank]) {
      if (visited[next] || !may_visit(next)) continue;
      visited[next] = true;
      open.push_back(next);
    }
  }
}

std::vector<int> still_ranks(const Graph& graph) {
  std::vector<int> found;
  for (int rank = 0; rank < static_cast<int>(graph.ranks.size()); ++rank)
    if (graph.ranks[rank].kind == Kind::kStill) found.push_back(rank);
  // Ranks that others wait for come first.
  std::ranges::stable_sort(found, {}, [&](int rank) {
    return std::tuple(graph.waiters[rank].empty(), graph.ranks[rank].since);
  });
  return found;
}

// The waiting ranks that wait for no moving rank, neither directly nor through other ranks.
std::vector<bool> unexcused_waiters(const Graph& graph) {
  const std::size_t count = graph.ranks.size();
  std::vector<bool> excused(count, false);
  const bool somebody_moves = std::ranges::any_of(
      graph.ranks, [](const GraphRank& rank) { return rank.kind == Kind::kMoving; });
  for (std::size_t rank = 0; rank < count; ++rank) {
    const bool may_wait_for_mover = somebody_moves && !graph.ranks[rank].lists_all;
    if ((graph.ranks[rank].kind == Kind::kMoving || may_wait_for_mover) && !excused[rank])
      visit(
          graph.waiters, static_cast<int>(rank), [](int) { return true; }, excused);
  }
  std::vector<bool> unexcused(count);
  for (std::size_t rank = 0; rank < count; ++rank)
    unexcused[rank] = graph.ranks[rank].kind == Kind::kWaiting && !excused[rank];
  return unexcused;
}

// A set of ranks in `candidates` that all wait for each other and for no other candidate, or one
// rank that waits for no candidate. Each candidate that no earlier search has reached starts a
// search against the edges. The last search starts in such a set: if an edge led out of the set,
// the search from that edge's end would have reached the start before.
std::vector<int> end_of_graph(const Graph& graph, const std::vector<bool>& candidates) {
  const int count = static_cast<int>(candidates.size());
  const auto is_candidate = [&](int rank) { return candidates[rank]; };
  std::vector<bool> seen(candidates.size(), false);
  int last = -1;
  for (int rank = 0; rank < count; ++rank) {
    if (!candidates[rank] || seen[rank]) continue;
    last = rank;
    visit(graph.waiters, rank, is_candidate, seen);
  }
  if (last < 0) return {};
  std::vector<bool> circle(candidates.size(), false);
  visit(graph.missing, last, is_candidate, circle);
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank)
    if (circle[rank]) ranks.push_back(rank);
  return ranks;
}

// The ranks that are behind the other ranks of the largest such group in the circle; empty if all
// ranks of each group are at the same call.
std::vector<int> behind_in_group(const Graph& graph, const std::vector<int>& circle) {
  std::map<std::string, std::vector<int>> groups;
  for (const int rank : circle)
    if (!graph.ranks[rank].group.empty() && graph.ranks[rank].number >= 0)
      groups[graph.ranks[rank].group].push_back(rank);
  std::vector<int> behind;
  std::size_t most = 0;
  for (const auto& [group, members] : groups) {
    const auto number = [&](int rank) { return graph.ranks[rank].number; };
    const auto [lowest, highest] = std::ranges::minmax(members, {}, number);
    if (number(lowest) == number(highest) || members.size() <= most) continue;
    most = members.size();
    behind.clear();
    for (const int rank : members)
      if (number(rank) == number(lowest)) behind.push_back(rank);
  }
  return behind;
}

int most_missed(const Graph& graph, const std::vector<int>& circle) {
  return *std::ranges::min_element(circle, {}, [&](int rank) {
    const auto missed = static_cast<std::int64_t>(graph.waiters[rank].size());
    return std::tuple(-missed, graph.ranks[rank].since);
  });
}

}  // namespace

std::vector<int> find_culprits(const std::vector<GraphRank>& ranks) {
  const Graph graph = make_graph(ranks);
  if (auto still = still_ranks(graph); !still.empty()) return still;
  const std::vector<int> circle = end_of_graph(graph, unexcused_waiters(graph));
  if (circle.empty()) return {};
  if (auto behind = behind_in_group(graph, circle); !behind.empty()) return behind;
  return {most_missed(graph, circle)};
}

}  // namespace phalanx::rendezvous
