#pragma once
// Low-rank adapters beside a linear (Hu et al., "LoRA: Low-Rank Adaptation of Large Language
// Models"): to some of its output features y is added
//
//   y += u B^T,  u = scale drop(x) A^T     A [rank, in], B [features of the part, rank]
//
// Their order is that of the parts. All of a linear are computed at once: u of all of them lie
// beside each other, and the B are the blocks of one matrix that is otherwise zero. Saved: u, and
// du = scale dy B.
//
// Beside a column-parallel linear a rank has all of A and the rows of B that belong to its output
// features; beside a row-parallel one it has the columns of A that belong to its input features,
// and all of B. What is whole gets a part of its gradient on every rank of the tensor-parallel
// group. No pass sends a message of its own: what is added is a part of the linear's partial sums.

#include <string>
#include <vector>

#include "phalanx/nn/linear.h"

namespace phalanx::nn {

class Adapters {
 public:
  // A part, and where its features are. The linear's features on this rank are [outer, slots,
  // inner]; those of the part are the slots [first, first + count).
  struct Part {
    AdapterPart part;
    std::int64_t features = 0;          // of the part, global
    std::vector<RowRange> ranges = {};  // this rank's of them; row-parallel: empty, all
    std::int64_t outer = 1, slots = 1, inner = 1;
    std::int64_t first = 0, count = 1;
  };

  // Of the linear of this name, [.., in] with global `in`, those of `parts` that the settings name
  // for the layer: parameters LINEAR.lora.PART.A.weight and LINEAR.lora.PART.B.weight.
  Adapters(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
           const std::string& linear, std::int64_t layer, std::int64_t in, Linear::Cut cut,
           const std::vector<Part>& parts, const TransformerConfig& config);

  bool empty() const { return adapters_.empty(); }
  // Whether the weight pass reads x, and dy.
  bool reads_input() const { return trains_a_; }
  bool reads_output_gradient() const { return trains_b_; }

  // Computes and saves u. `x` [s, b, this rank's input features].
  void enter(Pass& pass, const Tensor& x, const Saved& saved) const;
  // Adds to y [s, b, this rank's output features].
  void add(Pass& pass, const Tensor& y, const Saved& saved) const;
  // Both.
  void forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
    enter(pass, x, saved);
    add(pass, y, saved);
  }
  // Computes and saves du, and adds to dx.
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Saved& saved) const;
  // `x` may be absent unless reads_input().
  void backward_weight(Pass& pass, const Tensor& dy, const Tensor& x, const Saved& saved,
                       const Gradients& gradients) const;

 private:
  struct Adapter {
    Part part;
    ParamId a, b;
    bool trains_a, trains_b;
  };
  // Adapters that read the same x: all, or with dropout each alone, as each has a mask of its own.
  struct Group {
    std::size_t first, count;
  };

  std::vector<Group> groups(const Pass& pass) const;
  std::int64_t width() const { return std::ssize(adapters_) * config_.adapters.rank; }
  // A group's columns of u, or of du.
  std::int64_t begin(const Group& group) const;
  std::int64_t width(const Group& group) const;
  bool is_one_for_all() const;
  Dropout dropout(const Pass& pass, const Group& group) const;
  Tensor dropped(Pass& pass, const Tensor& x, const Group& group) const;
  // The A of a group below each other, and the B of all as one matrix [output features, width()].
  Tensor joined_a(Pass& pass, const Group& group) const;
  Tensor joined_b(Pass& pass) const;
  // A group's columns of du, dense.
  Tensor columns(Pass& pass, const Tensor& du, const Group& group) const;
  // An adapter's block of joined_b(), [outer, count, inner, rank].
  Tensor block(const Tensor& joined, std::size_t adapter) const;
  // A matrix of B's shape in the form of its block.
  Tensor as_block(const Tensor& b, std::size_t adapter) const;
  void gradient_of_b(Pass& pass, const Tensor& dy, const Saved& saved,
                     const Gradients& gradients) const;
  void gradient_of_a(Pass& pass, const Group& group, const Tensor& x, const Saved& saved,
                     const Gradients& gradients) const;

  const TransformerConfig config_;
  std::int64_t layer_;
  std::int64_t in_;               // this rank's input features
  std::int64_t first_input_ = 0;  // the first one
  std::int64_t out_ = 0;          // this rank's output features
  std::vector<Adapter> adapters_;
  bool trains_a_ = false;
  bool trains_b_ = false;
  SavedId u_ = -1;
  SavedId du_ = -1;
};

}  // namespace phalanx::nn
