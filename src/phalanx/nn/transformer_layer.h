#pragma once
// A Transformer layer: self attention, cross attention if it reads an encoder's output, and an MLP
// or experts. Each is a sub-layer with its norm and residual.

#include <memory>

#include "phalanx/nn/sublayer.h"
#include "phalanx/nn/unit.h"

namespace phalanx::nn {

// How a layer uses the encoder's output, the carried stream of a decoder (nn/encoder_norm.h).
enum class EncoderOutput : std::uint8_t {
  kNone,
  kRead,      // reads it and passes it on
  kReadLast,  // reads it for the last time
};

class TransformerLayer final : public Unit {
 public:
  // Parameters STACK.layers.LAYER.*; `layer` counts within the stack, `local_layer` within the
  // chunk.
  TransformerLayer(ParamTable& table, std::int64_t layer, std::int64_t local_layer,
                   const TransformerConfig& config,
                   EncoderOutput encoder_output = EncoderOutput::kNone);

  void forward(Pass& pass, Tensors inputs, Tensors outputs, const Saved& saved) const override;
  void infer(InferencePass& pass, Tensors inputs, Tensors outputs,
             const Saved& saved) const override;
  void backward_input(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                      const Saved& saved) const override;
  void backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                       const Gradients& gradients) const override;
  void backward(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                const Saved& saved, const Gradients& gradients) const override;
  bool recomputable() const override { return true; }
  void recompute(Pass& pass, Tensors inputs, const Saved& saved) const override;

 private:
  // The residual stream that sub-layer i reads.
  const Tensor& stream(std::size_t i, Tensors inputs, const Saved& saved) const {
    return i == 0 ? inputs[0] : saved[between_[i - 1]];
  }
  void add_between(const std::string& name);
  BodyCall body_call(Pass& pass, Tensors inputs, const Saved& saved) const;
  // Calls backward(i, dx, dout) from the last sub-layer to the first.
  template <typename Backward>
  void for_each_backward(Pass& pass, Tensors output_gradients, Tensors input_gradients,
                         const Backward& backward) const;

  const TransformerConfig config_;
  bool reads_encoder_;
  std::vector<std::unique_ptr<const ResidualSublayer>> sublayers_;
  std::vector<SavedId> between_;  // the residual stream between sub-layers i and i + 1
};

}  // namespace phalanx::nn
