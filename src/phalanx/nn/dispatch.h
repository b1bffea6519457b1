#pragma once
// How the rows of tokens get to the experts that a router chose for them, and the results back
// (Lepikhin et al., GShard, 2020; Megatron's token dispatchers). A pair of a token and an expert is
// a row. The experts of this rank compute rows sorted by (expert, home, pair), where the home is
// the rank of the token: their order, and so every result, does not depend on when messages arrive.
// Of all ways:
//
//   local        all experts are on this rank, and rows are gathered from its tokens
//   all-to-all   each row travels to the ranks of its expert, in rounds (nn/row_plan.h); a token's
//                results are added by rising expert
//   all-gather   all ranks gather all tokens; each adds the results of its experts by rising
//   expert,
//                and these sums are reduced and scattered in the order of comm/sum_tree.h
//
// With expert-tensor parallelism each rank of an expert computes all its rows with a part of the
// expert's features. All-to-all adds their results in full precision by rising rank.

#include <memory>
#include <optional>

#include "phalanx/nn/config.h"
#include "phalanx/nn/pass.h"
#include "phalanx/nn/row_plan.h"

namespace phalanx::nn {

// The choice of a router for the tokens of a pass, [T, k] (nn/router.h).
struct Routing {
  Tensor experts;        // i32
  Tensor probabilities;  // full precision
};

// Rows, or a number for each row, on their way: the tokens' side, as Dispatch makes it, and the
// experts' side, [rows of a round, ...]. Absent: nothing.
struct Freight {
  Tensor at_home, at_expert;
};

// One pass over the rows of a microbatch. All ranks make the same calls in the same order. Scratch
// is of the WorkspaceScope that encloses the call.
class Dispatch {
 public:
  virtual ~Dispatch() = default;

  // In how many rounds experts compute; the same on all ranks.
  virtual int rounds() { return 1; }
  // How many rows this rank's experts have in a round, where the host knows it.
  virtual std::optional<std::int64_t> expected_rows(int /*round*/) { return std::nullopt; }
  // [local experts + 1], i32: the rows of each local expert among those of a round.
  virtual Tensor offsets(int round) = 0;
  // Writes zeros to the rows of a round that are of no pair, which experts do not write. Before
  // the others are written.
  virtual void clear_rest(int round, const Tensor& at_expert) = 0;

  // The tokens' side of tokens [T, h], and of numbers of their pairs [T, k] in full precision.
  virtual Tensor leaving_rows(const Tensor& tokens) = 0;
  virtual Tensor leaving_numbers(const Tensor& pairs) = 0;
  virtual void fetch(int round, const Freight& rows, const Freight& numbers) = 0;

  // The tokens' side of results that experts will have in `at_expert`.
  virtual Tensor coming_rows(const Tensor& at_expert) = 0;
  virtual Tensor coming_numbers(const Tensor& at_expert) = 0;
  virtual void give_back(int round, const Freight& rows, const Freight& numbers) = 0;
  // After all rounds. y [T, h]: the sum of each token's results, in their type or in full
  // precision.
  virtual void add_up_rows(const Tensor& y, const Tensor& coming) = 0;
  // pairs [T, k]: 0 for a pair without a row.
  virtual void add_up_numbers(const Tensor& pairs, const Tensor& coming) = 0;
};

class Dispatcher {
 public:
  explicit Dispatcher(const TransformerConfig& config)
      : settings_(config.experts), layout_(config.expert_parallel) {}
  virtual ~Dispatcher() = default;
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Rows of a round: of all tensors of the experts' side.
  std::int64_t rows(std::int64_t tokens) const {
    return row_sizes(settings_, layout_, tokens).round;
  }
  // Whether a batch of so many tokens of each rank may take more than one round.
  bool may_take_rounds(std::int64_t tokens) const {
    return row_sizes(settings_, layout_, tokens).most_rounds() > 1;
  }
  // Whether rows come by messages: then they are saved, not fetched again.
  bool has_messages() const { return layout_.is_parallel(); }

  // Begins a forward pass. Its recomputation sends no counts again.
  virtual std::unique_ptr<Dispatch> begin(Pass& pass, const Routing& routing, const Saved& saved,
                                          bool recomputes) const = 0;
  // For a backward pass.
  virtual std::unique_ptr<Dispatch> resume(Pass& pass, const Saved& saved) const = 0;

 protected:
  const ExpertSettings settings_;
  const ExpertParallel layout_;
};

// The one that the configuration asks for. `last`: the last reader of what all passes read.
std::unique_ptr<const Dispatcher> make_dispatcher(SavedSlots& slots,
                                                  const TransformerConfig& config, LastReader last);

// Each of them.
std::unique_ptr<const Dispatcher> make_local_dispatcher(SavedSlots& slots,
                                                        const TransformerConfig& config,
                                                        LastReader last);
std::unique_ptr<const Dispatcher> make_all_to_all_dispatcher(SavedSlots& slots,
                                                             const TransformerConfig& config,
                                                             LastReader last);
std::unique_ptr<const Dispatcher> make_all_gather_dispatcher(SavedSlots& slots,
                                                             const TransformerConfig& config,
                                                             LastReader last);

}  // namespace phalanx::nn
