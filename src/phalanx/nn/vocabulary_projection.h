#pragma once
// The end of a head: logits of a region's rows against the (tied) word table, and their cross
// entropy. The factor of the loss is known before the first pass, so forward overwrites the logits
// with their gradient, in storage type: only one b*s*V tensor exists. The vocabulary is cut over
// the tensor-parallel group. Each rank has the logits of its words, and three numbers per row are
// gathered (vocabulary-parallel cross entropy), never the logits.

#include <string>
#include <vector>

#include "phalanx/nn/region_entry.h"

namespace phalanx::nn {

// The columns of the batch that a head reads. Rows with loss mask 0 may have any label.
struct TargetColumns {
  std::size_t labels = 0;     // i32
  std::size_t loss_mask = 0;  // f32
};

struct VocabularyOptions {
  std::int64_t vocabulary = 0;
  std::int64_t padded_vocabulary = 0;
  // Whether it uses the embedding's word table; else it adds NAME.weight.
  bool tied = true;
  std::string name = "output_layer";
  // Whether NAME.bias [vocabulary], initially zeros, is added to the logits; padding has none.
  bool bias = false;
  // Input rows are first multiplied by this.
  double row_scale = 1.0;
  TargetColumns columns;
  std::size_t loss = 0;  // its number among the model's losses
};

// In training: the number that the backward pass of a loss starts from. `mask`: the samples or rows
// that count.
void seed_loss(Pass& pass, const Tensor& seed, const Tensor& mask, const LossTerm& term);

class VocabularyProjection final : public RegionBody {
 public:
  VocabularyProjection(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                       const VocabularyOptions& options, const TransformerConfig& config);

  // This rank's logits [n, v], in f32 or storage type, of some of the region's rows [n, h], which
  // are scaled in place.
  void logits(Pass& pass, const Tensor& logits, const Tensor& rows) const;
  // The logits [n, V] f32, gathered from all ranks of the tensor-parallel group.
  void whole_logits(Pass& pass, const Tensor& logits, const Tensor& rows) const;
  // Adds the losses of the entered rows [s, b, h] to the sums; scales the rows in place; saves the
  // logits' gradient in training. Optional: `row_losses` [s*b] gets the loss of each row,
  // `last_logits` [n, v] the logits of the last n.
  void losses(Pass& pass, const Tensor& entered, const Saved& saved, const Tensor& row_losses = {},
              const Tensor& last_logits = {}) const;
  void entry_input_gradient(BodyCall& call, const Tensor& dentered) const override;
  bool entry_trains() const override { return trains_weight_; }
  void entry_weight_gradient(BodyCall& call, const Tensor& entered,
                             const Gradients& gradients) const override;

 private:
  void scale_rows(Pass& pass, const Tensor& rows) const;

  // Computes losses of rows of logits, and their gradients in place or in dlogits.
  struct Rows {
    Tensor loss, dlogits, logits, targets, mask, seed;
  };
  void cross_entropy(Pass& pass, const Rows& rows) const;

  const TransformerConfig config_;
  const VocabularyOptions options_;
  std::int64_t columns_;  // of this rank, padding included
  ParamUse weight_;
  ParamId bias_ = -1;
  bool trains_weight_ = true;
  bool trains_bias_ = false;
  SavedId dlogits_;
};

}  // namespace phalanx::nn
