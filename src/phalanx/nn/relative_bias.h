#pragma once
// T5's relative position bias in self attention (ops/relative_bias.h): one table [buckets, heads]
// for all layers of a stack. Every layer computes the bias of its heads from the table when needed,
// so no [s, s] tensor is saved. It adds to the table's gradient in its own role; roles are summed
// in the order of the layers, on one stage or many.

#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"
#include "phalanx/ops/relative_bias.h"

namespace phalanx::nn {

class RelativeBias {
 public:
  // Parameter STACK_relative_pos_emb.relative_attention_bias.weight, whole on every tensor-parallel
  // rank; each has the gradient of its heads' columns. Saved: this microbatch's gradient. `config`
  // must have relative_buckets.
  RelativeBias(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
               std::int64_t layer, const TransformerConfig& config);

  // The bias [heads of this rank, queries, keys], in scratch of the enclosing WorkspaceScope. Query
  // 0 is at position `first_query`.
  Tensor bias(Pass& pass, std::int64_t queries, std::int64_t keys, std::int64_t first_query) const;
  // Zeros for the bias's gradient, in the same scratch.
  Tensor zeros(Pass& pass, std::int64_t queries, std::int64_t keys) const;
  void backward_input(Pass& pass, const Tensor& dbias, const Saved& saved) const;
  void backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const;

 private:
  Tensor scratch(Pass& pass, std::int64_t queries, std::int64_t keys) const;
  std::int64_t first_head() const { return config_.tensor.rank * config_.local_heads(); }

  const TransformerConfig config_;
  ParamUse table_;
  bool trains_ = true;
  SavedId dtable_;
};

}  // namespace phalanx::nn
