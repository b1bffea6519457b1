#pragma once
// Which rows travel between which ranks where experts are shared out (regions/expert_region.h).
//
// A rank is home to its tokens. Their pairs, sorted by (expert, pair), are its rows at home. An
// expert's rows are those of all ranks; the ranks of an expert have them sorted by (expert, home,
// row at home), so their order does not depend on when messages arrive. They compute them in rounds
// of so many rows that memory is planned (Experts): round j has the rows [j n, (j + 1) n) of this
// order. All ranks know the counts of all, so they agree on every message and on the number of
// rounds.

#include <cstdint>
#include <vector>

#include "phalanx/nn/expert_settings.h"
#include "phalanx/regions/expert_region.h"

namespace phalanx::nn {

// How many rows the memory of a layer is planned for, where every rank has `tokens` tokens.
struct RowSizes {
  std::int64_t home = 0;      // a rank's pairs, with the rows that pad experts to their capacity
  std::int64_t balanced = 0;  // of a rank with experts, if all experts have equally many
  std::int64_t most = 0;      //   whatever the router chooses
  std::int64_t round = 0;     //   in one round

  std::int64_t most_rounds() const { return round == 0 ? 1 : (most + round - 1) / round; }
};
RowSizes row_sizes(const ExpertSettings& settings, const ExpertParallel& layout,
                   std::int64_t tokens);

// Consecutive rows of one expert that travel between two ranks.
struct TravelRun {
  int peer = 0;                // in ExpertRegion::all()
  std::int64_t expert = 0;     // of the layer
  std::int64_t at_home = 0;    // the first row among the home's; only where this rank is the home
  std::int64_t at_expert = 0;  // the first row among the round's
  std::int64_t count = 0;      // above 0
};

class RowPlan {
 public:
  // counts[h * experts + e]: rows of rank h of ExpertRegion::all() that expert e has.
  // `rows_of_round`: of every rank with experts, at least 1.
  RowPlan(const ExpertParallel& layout, std::int64_t experts, std::vector<std::int64_t> counts,
          std::int64_t rows_of_round);

  // Of the rank with the most rows; at least 1.
  int rounds() const { return rounds_; }
  // How many rows this rank's experts have in a round.
  std::int64_t rows(int round) const;
  // [local experts + 1]: where the rows of each local expert begin within the round's.
  std::vector<std::int32_t> offsets(int round) const;
  // The rows of this rank's tokens that a round sends to ranks with experts, this one included, by
  // (peer, expert).
  std::vector<TravelRun> leaving(int round) const;
  // The rows that this rank's experts get in a round, this rank's own included, by (expert, peer):
  // so by expert of every peer.
  std::vector<TravelRun> arriving(int round) const;

 private:
  int ranks() const { return layout_.size * layout_.tensor_size; }
  int own_rank() const { return layout_.tensor_rank + layout_.tensor_size * layout_.rank; }
  std::int64_t local() const { return layout_.local_experts(experts_); }
  std::int64_t count(int home, std::int64_t expert) const {
    return counts_[static_cast<std::size_t>(home * experts_ + expert)];
  }
  // Where the rows of an expert from a home begin in the order of the expert's ranks.
  std::int64_t begin(int home, std::int64_t expert) const {
    return begins_[static_cast<std::size_t>(expert * ranks() + home)];
  }
  // The part of [begin, end) that is in a round, counted from the round's first row.
  struct Range {
    std::int64_t begin, end;
  };
  Range within(int round, std::int64_t begin, std::int64_t end) const;

  ExpertParallel layout_;
  std::int64_t experts_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int64_t> begins_;
  std::int64_t rows_of_round_;
  int rounds_ = 1;
};

// The counts of ranks whose tokens choose all experts about equally often: what a plan assumes.
std::vector<std::int64_t> balanced_counts(const ExpertSettings& settings,
                                          const ExpertParallel& layout, std::int64_t tokens);

}  // namespace phalanx::nn
