#include "phalanx/nn/row_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::nn {
namespace {

std::int64_t capacity_of(const ExpertSettings& settings, std::int64_t tokens) {
  if (settings.capacity_factor <= 0.0) return tokens;
  return ops::expert_capacity(tokens, settings.chosen, settings.experts, settings.capacity_factor);
}

}  // namespace

RowSizes row_sizes(const ExpertSettings& settings, const ExpertParallel& layout,
                   std::int64_t tokens) {
  const std::int64_t homes = std::int64_t{layout.size} * layout.tensor_size;
  const std::int64_t local = layout.local_experts(settings.experts);
  const std::int64_t capacity = capacity_of(settings, tokens);
  const std::int64_t pairs = tokens * settings.chosen;
  RowSizes sizes;
  sizes.balanced = pairs * layout.tensor_size;
  if (settings.pad_to_capacity) {
    sizes.home = settings.experts * capacity;
    sizes.most = sizes.round = homes * local * capacity;
    return sizes;
  }
  sizes.home = std::min(pairs, settings.experts * capacity);
  sizes.most = homes * std::min(tokens * std::min(settings.chosen, local), local * capacity);
  sizes.round = sizes.most;
  if (layout.is_parallel() && settings.dispatch == TokenDispatch::kAllToAll) {
    const double planned = settings.planned_imbalance * static_cast<double>(sizes.balanced);
    sizes.round = std::min(sizes.most, static_cast<std::int64_t>(std::ceil(planned)));
  }
  return sizes;
}

RowPlan::RowPlan(const ExpertParallel& layout, std::int64_t experts,
                 std::vector<std::int64_t> counts, std::int64_t rows_of_round)
    : layout_(layout),
      experts_(experts),
      counts_(std::move(counts)),
      begins_(counts_.size()),
      rows_of_round_(rows_of_round) {
  PHALANX_CHECK(std::ssize(counts_) == ranks() * experts && rows_of_round > 0,
                "{} counts of {} experts on {} ranks, {} rows in a round", counts_.size(), experts,
                ranks(), rows_of_round);
  std::int64_t most = 0;
  for (int rank = 0; rank < layout.size; ++rank) {
    std::int64_t rows = 0;
    for (std::int64_t e = rank * local(); e < (rank + 1) * local(); ++e) {
      for (int home = 0; home < ranks(); ++home) {
        begins_[static_cast<std::size_t>(e * ranks() + home)] = rows;
        rows += count(home, e);
      }
    }
    most = std::max(most, rows);
  }
  rounds_ = static_cast<int>(std::max<std::int64_t>(1, (most + rows_of_round - 1) / rows_of_round));
}

RowPlan::Range RowPlan::within(int round, std::int64_t begin, std::int64_t end) const {
  const std::int64_t first = round * rows_of_round_;
  return {std::clamp<std::int64_t>(begin - first, 0, rows_of_round_),
          std::clamp<std::int64_t>(end - first, 0, rows_of_round_)};
}

std::int64_t RowPlan::rows(int round) const { return offsets(round).back(); }

std::vector<std::int32_t> RowPlan::offsets(int round) const {
  std::vector<std::int32_t> offsets = {0};
  const std::int64_t first = layout_.first_expert(experts_);
  for (std::int64_t e = first; e < first + local(); ++e) {
    const std::int64_t end = begin(ranks() - 1, e) + count(ranks() - 1, e);
    offsets.push_back(static_cast<std::int32_t>(within(round, 0, end).end));
  }
  return offsets;
}

std::vector<TravelRun> RowPlan::leaving(int round) const {
  std::vector<TravelRun> runs;
  for (int peer = 0; peer < ranks(); ++peer) {
    const std::int64_t first = peer / layout_.tensor_size * local();
    std::int64_t at_home = 0;
    for (std::int64_t e = 0; e < first; ++e) at_home += count(own_rank(), e);
    for (std::int64_t e = first; e < first + local(); ++e) {
      const std::int64_t begins = begin(own_rank(), e);
      const std::int64_t rows = count(own_rank(), e);
      const Range range = within(round, begins, begins + rows);
      if (range.begin < range.end) {
        const std::int64_t skipped = round * rows_of_round_ + range.begin - begins;
        runs.push_back({.peer = peer,
                        .expert = e,
                        .at_home = at_home + skipped,
                        .at_expert = range.begin,
                        .count = range.end - range.begin});
      }
      at_home += rows;
    }
  }
  return runs;
}

std::vector<TravelRun> RowPlan::arriving(int round) const {
  std::vector<TravelRun> runs;
  const std::int64_t first = layout_.first_expert(experts_);
  for (std::int64_t e = first; e < first + local(); ++e) {
    for (int home = 0; home < ranks(); ++home) {
      const std::int64_t begins = begin(home, e);
      const Range range = within(round, begins, begins + count(home, e));
      if (range.begin == range.end) continue;
      runs.push_back(
          {.peer = home, .expert = e, .at_expert = range.begin, .count = range.end - range.begin});
    }
  }
  return runs;
}

std::vector<std::int64_t> balanced_counts(const ExpertSettings& settings,
                                          const ExpertParallel& layout, std::int64_t tokens) {
  const std::int64_t homes = std::int64_t{layout.size} * layout.tensor_size;
  const std::int64_t experts = settings.experts;
  const std::int64_t capacity = capacity_of(settings, tokens);
  const std::int64_t pairs = tokens * settings.chosen;
  const std::int64_t rest = pairs % experts;
  std::vector<std::int64_t> counts;
  for (std::int64_t home = 0; home < homes; ++home) {
    for (std::int64_t e = 0; e < experts; ++e) {
      // Each rank gives the rest to other experts.
      const bool has_more = (e + experts - home * rest % experts) % experts < rest;
      const std::int64_t count = pairs / experts + (has_more ? 1 : 0);
      counts.push_back(settings.pad_to_capacity ? capacity : std::min(count, capacity));
    }
  }
  return counts;
}

}  // namespace phalanx::nn
