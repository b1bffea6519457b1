#pragma once
// Pairs of tokens and experts sorted by (expert, pair), in saved tensors: the order of rows.

#include "phalanx/nn/expert_settings.h"
#include "phalanx/nn/pass.h"

namespace phalanx::nn {

class PairOrder {
 public:
  struct Settings {
    LastReader last = LastReader::kWeightGradient;
    bool is_kept = false;    // recomputation does not sort again
    std::int64_t ranks = 1;  // whose tokens are sorted together; a rank's capacity counts as often
    std::int64_t first = 0;  // the experts whose pairs have rows, from this one on
    std::int64_t experts = 0;
  };
  // With pad_to_capacity each expert has the rows of its capacity.
  PairOrder(SavedSlots& slots, const ExpertSettings& experts, const Settings& settings);

  // chosen [tokens, k]: negative where a pair was dropped.
  void sort(Pass& pass, const Tensor& chosen, const Saved& saved) const;
  // [experts + 1].
  const Tensor& offsets(const Saved& saved) const { return saved[offsets_]; }
  // [tokens, k].
  const Tensor& row_of_pair(const Saved& saved) const { return saved[row_of_pair_]; }
  // rows[r] = the token of row r, of tokens [tokens, h]; numbers[r] = the number of its pair, of
  // pairs [tokens, k]. Padding is zeros; rows behind the last pair stay as they are in `rows`, and
  // are 0 in `numbers`.
  void gather(Pass& pass, const Tensor& rows, const Tensor& tokens, const Saved& saved) const;
  void gather_numbers(Pass& pass, const Tensor& numbers, const Tensor& pairs,
                      const Saved& saved) const;
  // y[t] = the sum of the token's rows, by rising expert.
  void add_up(Pass& pass, const Tensor& y, const Tensor& rows, const Saved& saved) const;
  // pairs[t, i] = the number of the pair's row, 0 if it has none.
  void scatter_numbers(Pass& pass, const Tensor& pairs, const Tensor& numbers,
                       const Saved& saved) const;

 private:
  ExpertSettings experts_;
  Settings settings_;
  SavedId offsets_, pair_of_row_, row_of_pair_;
};

}  // namespace phalanx::nn
