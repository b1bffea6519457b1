#pragma once
// The experts of a layer that this rank has: MLPs of which each computes the tokens that a router
// has given it. Rows of pairs come and go by a Dispatcher (nn/dispatch.h), sorted by expert, so
// that a product over all experts is one op. y_t = sum over the chosen experts i of p_ti
// expert_i(x_t); p multiplies what fc2 reads, and its bias. Works on rows of the residual stream.
//
// Where rows come by messages, those of the first round are saved with the gradients of results, so
// that the weight pass sends none. Rows of later rounds have scratch memory: each backward pass
// fetches them again and computes again what it needs. That memory is taken whether there are later
// rounds or not, so a plan of it is exact.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/dispatch.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

namespace phalanx::nn {

class Experts {
 public:
  // Parameters NAME.i.linear_fc1.weight [f or 2f, h] and NAME.i.linear_fc2.weight [h, f] of every
  // expert i of this rank, and biases where linears have them. Saved: the order of pairs and fc1's
  // output. Rows that need no message are gathered again by the weight pass.
  Experts(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
          const std::string& name, const TransformerConfig& config);

  // Begins a forward pass, or a recomputation: sorts the pairs, and sends how many rows each expert
  // has. Until finish() needs them, these numbers are on their way to the host.
  std::unique_ptr<Dispatch> begin(Pass& pass, const Routing& routing, const Saved& saved,
                                  bool recomputes) const {
    return dispatcher_->begin(pass, routing, saved, recomputes);
  }
  // x and y: [T, h].
  void forward(Pass& pass, Dispatch& dispatch, const Tensor& y, const Tensor& x,
               const Routing& routing, const Saved& saved) const;
  // Recomputes the tensors of forward that backward reads.
  void recompute(Pass& pass, Dispatch& dispatch, const Tensor& x, const Routing& routing,
                 const Saved& saved) const;
  // Whether rows come from other ranks.
  bool has_messages() const { return dispatcher_->has_messages(); }
  // Whether backward_input reads x.
  bool backward_input_reads(const Pass& pass) const { return takes_rounds(pass); }
  // Writes dx [T, h] and dprobabilities [T, k], both in full precision.
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dprobabilities, const Tensor& dy,
                      const Tensor& x, const Routing& routing, const Saved& saved) const;
  void backward_weight(Pass& pass, const Tensor& dy, const Tensor& x, const Routing& routing,
                       const Saved& saved, const Gradients& gradients) const;
  bool trains() const { return fc1_.trains || fc2_.trains; }

 private:
  // One linear of each expert.
  struct Linears {
    std::vector<ParamId> weights, biases;  // by expert of this rank; no biases: empty
    bool trains = false;
  };
  // The part of a parameter of this name that this rank holds.
  using SpecMaker = std::function<ParamSpec(std::string name)>;
  // The parameters of this rank's experts, with their numbers in the layer.
  Linears add_linears(ParamTable& table, std::vector<ParamId>& owned, const std::string& name,
                      const std::string& linear, const SpecMaker& make_weight,
                      const SpecMaker& make_bias) const;
  Linears add_fc1(ParamTable& table, std::vector<ParamId>& owned, const std::string& name) const;
  Linears add_fc2(ParamTable& table, std::vector<ParamId>& owned, const std::string& name) const;
  // The parameters of this rank's experts as one tensor, [experts, ...].
  static Tensor weights(const Pass& pass, const std::vector<ParamId>& ids);
  // The rows of one linear in a round: its output's gradients, what it read, whose they are.
  struct LinearRows {
    Tensor dy, x, offsets;
    Tensor bias_factors;  // absent: 1
    std::optional<std::int64_t> expected;
  };
  static void add_gradients(Pass& pass, const Linears& linears, const LinearRows& rows,
                            const Gradients& gradients);
  // This rank's part.
  std::int64_t ffn_hidden() const {
    return config_.experts.ffn_hidden / config_.expert_parallel.tensor_size;
  }
  std::int64_t fc1_width() const { return (config_.gated ? 2 : 1) * ffn_hidden(); }
  // fc2's bias counts once.
  bool adds_bias() const {
    return !fc2_.biases.empty() && config_.expert_parallel.tensor_rank == 0;
  }

  // The experts' side of a round, by row.
  struct Round {
    Tensor x, dy;          // [rows, h]
    Tensor probabilities;  // [rows]
    Tensor fc1, dfc1;      // [rows, fc1's width]: its output, and the gradient of that
  };
  // What rows are fetched from (Dispatch).
  struct Leaving {
    Tensor x, dy, probabilities;
  };
  bool takes_rounds(const Pass& pass) const {
    return dispatcher_->may_take_rounds(pass.shape.stream_rows());
  }
  // Scratch of the enclosing WorkspaceScope, and saved tensors, where there are any, or scratch.
  Tensor scratch_rows(const Pass& pass, std::int64_t width) const;
  Tensor scratch_numbers(const Pass& pass) const;
  Tensor rows(const Pass& pass, SavedId id, const Saved& saved) const;
  Tensor numbers(const Pass& pass, const Saved& saved) const;
  // The first round of a forward pass.
  Round first_round(const Pass& pass, const Saved& saved) const;
  // Scratch for rounds after the first; nothing if there cannot be any.
  Round later_round(const Pass& pass, bool is_backward) const;
  // What a forward pass fetches. Without x: probabilities alone.
  static Leaving leaving(Dispatch& dispatch, const Tensor& x, const Routing& routing);
  // What a backward pass fetches again.
  Leaving leaving_again(const Pass& pass, Dispatch& dispatch, const Tensor& x,
                        const Routing& routing) const;

  // Fetches x and probabilities, and computes fc1.
  void compute_fc1(Pass& pass, Dispatch& dispatch, int number, const Leaving& from,
                   const Round& round, const Tensor& offsets) const;
  // What fc2 reads, in scratch.
  Tensor activated(Pass& pass, const Round& round, const Tensor& offsets) const;
  // Fetches dy, and computes dfc1 and, where `dots` is there, the gradient of probabilities.
  void compute_dfc1(Pass& pass, Dispatch& dispatch, int number, const Leaving& from,
                    const Round& round, const Tensor& offsets, const Tensor& dots) const;

  const TransformerConfig config_;
  Linears fc1_, fc2_;
  std::shared_ptr<const Dispatcher> dispatcher_;  // shared with the shapes of saved tensors
  SavedId fc1_output_, dfc1_output_;
  SavedId rows_ = -1, probabilities_ = -1, drows_ = -1;  // of rows that come by messages
};

}  // namespace phalanx::nn
