#pragma once
// Ranks of a context exchange rows for heads (Jacobs et al., DeepSpeed Ulysses, 2023): before, each
// has all its heads of n rows ("by rows"); after, the rows of all `ranks` neighbours, m = ranks * n
// in sample order (nn/context_rows.h), of its share of the heads ("by heads"). Rank j has the j-th
// share of the query heads, and the groups that they read: where there are fewer groups than ranks,
// several ranks get the same group, and its gradients are sums.

#include "phalanx/nn/attention_core.h"

namespace phalanx::nn {

class HeadExchange {
 public:
  // The heads of a tensor-parallel rank are cut into `ranks` shares.
  HeadExchange(const TransformerConfig& config, int ranks);

  std::int64_t heads() const { return heads_; }
  std::int64_t groups() const { return groups_; }
  // Whether every group is on one rank.
  bool has_whole_groups() const { return sharers_ == 1; }
  // Of queries, keys and values by heads, fused as those by rows are (nn/self_attention.h).
  std::int64_t width() const { return (heads_ + 2 * groups_) * head_size_; }
  // Views of a tensor [m, b, width].
  AttentionCore::Heads split(const Tensor& fused) const;

  // One message each way. `group` has the neighbours.
  void to_heads(Pass& pass, Communicator& group, const Tensor& fused,
                const AttentionCore::Heads& by_rows) const;
  // An output or its gradient: [m, b, heads, d] by heads, [n, b, all heads, d] by rows.
  void output_to_heads(Pass& pass, Communicator& group, const Tensor& by_heads,
                       const Tensor& by_rows) const;
  void output_to_rows(Pass& pass, Communicator& group, const Tensor& by_rows,
                      const Tensor& by_heads) const;
  // A number of each row and head: [b, heads, m] by heads, [b, all heads, n] by rows.
  void statistic_to_heads(Pass& pass, Communicator& group, const Tensor& by_heads,
                          const Tensor& by_rows) const;
  // Gradients of queries, keys and values; those by heads may be in full precision. Where groups
  // are shared there are two messages: the gradients of keys and values are sent in full precision,
  // added in rank order and rounded once.
  void gradients_to_rows(Pass& pass, Communicator& group, const AttentionCore::Heads& by_rows,
                         const AttentionCore::Heads& by_heads) const;

 private:
  // Of the tensors by rows, the heads that rank `rank` gets.
  AttentionCore::Heads share(const AttentionCore::Heads& by_rows, int rank) const;
  Tensor query_share(const Tensor& queries, int rank) const;
  // [rows, b, groups, heads per group + 2, d] as its queries, keys and values.
  static AttentionCore::Heads parts_of(const Tensor& fused);
  static void copy(Pass& pass, const AttentionCore::Heads& to, const AttentionCore::Heads& from);
  // Scratch like `given`: its part r is what rank r gives to this one.
  static Tensor exchanged(Pass& pass, Communicator& group, const Tensor& given);
  void whole_gradients_to_rows(Pass& pass, Communicator& group, const AttentionCore::Heads& by_rows,
                               const AttentionCore::Heads& by_heads) const;
  void shared_gradients_to_rows(Pass& pass, Communicator& group, const Tensor& key,
                                const Tensor& value, const AttentionCore::Heads& by_heads) const;

  int ranks_;
  bool in_chunks_;
  DType dtype_;
  std::int64_t head_size_;
  std::int64_t heads_;   // of a share
  std::int64_t groups_;  // of a share
  int sharers_;          // the ranks that get the same group
};

}  // namespace phalanx::nn
