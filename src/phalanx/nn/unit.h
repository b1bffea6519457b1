#pragma once
// A unit is what a pipeline stage owns a list of: the embedding, each layer, the head. Three
// passes, written by hand:
//
//   forward          reads input, parameters      writes output, and into saved what backward needs
//   backward_input   reads output gradient, saved writes input gradient, and into saved the output
//                                                 gradients of its linears for backward_weight
//   backward_weight  reads saved                  adds into the fp32 main gradients
//
// Units are immutable: all state of a microbatch is in what they are given.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/nn/inference_pass.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/saved_tensor.h"

namespace phalanx::nn {

// A tensor that flows between units. Some models pass two.
struct StreamSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::int64_t width = 0;  // [s, b, width]
  Sequence sequence = Sequence::kOnly;
  // One tensor that several units read: a unit has it among its inputs and, under the same name,
  // its outputs. A unit writes it only where it is not an input of the unit. Its gradient is one
  // tensor too, to which every reader adds; it begins as what the next stage sent, or as zeros
  // where no later unit reads the stream.
  bool carried = false;
};

class Unit {
 public:
  virtual ~Unit() = default;

  const std::string& name() const { return name_; }
  // The sequence whose rows the passes work on.
  Sequence sequence() const { return sequence_; }
  const std::vector<SavedSlot>& saved_slots() const { return slots_.slots(); }
  // Parameters whose gradients backward_weight adds to.
  const std::vector<ParamId>& parameters() const { return parameters_; }
  // Parameters whose weights a pass of this kind reads, shared ones included.
  virtual const std::vector<ParamId>& needs(PassKind /*pass*/) const { return parameters_; }
  // Streams into and out of the unit; the embedding has no input, the head no output.
  const std::vector<StreamSpec>& inputs() const { return inputs_; }
  const std::vector<StreamSpec>& outputs() const { return outputs_; }
  // The last pass that reads the unit's input.
  LastReader input_last_reader() const { return input_last_reader_; }

  virtual void forward(Pass& pass, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                       const Saved& saved) const = 0;
  virtual void backward_input(Pass& pass, std::span<const Tensor> inputs,
                              std::span<const Tensor> output_gradients,
                              std::span<const Tensor> input_gradients,
                              const Saved& saved) const = 0;
  virtual void backward_weight(Pass& pass, std::span<const Tensor> inputs, const Saved& saved,
                               const Gradients& gradients) const = 0;

  // Both backward passes, in an order that hides messages; the same bits.
  virtual void backward(Pass& pass, std::span<const Tensor> inputs,
                        std::span<const Tensor> output_gradients,
                        std::span<const Tensor> input_gradients, const Saved& saved,
                        const Gradients& gradients) const {
    backward_input(pass, inputs, output_gradients, input_gradients, saved);
    backward_weight(pass, inputs, saved, gradients);
  }

  // The forward pass of generation and scoring.
  virtual void infer(InferencePass& pass, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs, const Saved& saved) const {
    forward(pass.pass, inputs, outputs, saved);
  }

  // Whether activation recomputation applies to this unit: recompute() writes again what backward
  // reads from `saved`, bit for bit, without the outputs.
  virtual bool recomputable() const { return false; }
  virtual void recompute(Pass& /*pass*/, std::span<const Tensor> /*inputs*/,
                         const Saved& /*saved*/) const {
    PHALANX_CHECK(recomputable(), "{} is not recomputed", name_);
  }

 protected:
  explicit Unit(std::string name, Sequence sequence = Sequence::kOnly)
      : name_(std::move(name)), sequence_(sequence), slots_(sequence) {}

  std::string name_;
  Sequence sequence_;
  SavedSlots slots_;
  std::vector<ParamId> parameters_;
  std::vector<StreamSpec> inputs_, outputs_;
  LastReader input_last_reader_ = LastReader::kWeightGradient;
};

// What a pass of a unit was given: it has read and written nothing else. Tensors that a kind of
// pass does not have are empty.
struct UnitTensors {
  const Pass& pass;
  std::span<const Tensor> inputs, outputs;
  std::span<const Tensor> output_gradients, input_gradients;
  std::span<const Tensor> slots;  // by SavedId
  const Gradients* gradients = nullptr;
};

// Called by the chunk around every unit and pass: data parallelism, offload, tracing and the NaN
// finder implement it.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before(const Unit& /*unit*/, PassKind /*pass*/, int /*microbatch*/) {}
  virtual void after(const Unit& /*unit*/, PassKind /*pass*/, int /*microbatch*/,
                     const UnitTensors& /*tensors*/) {}
  // The parameter's gradient of this microbatch has been added, and after() of every hook has
  // returned: the gradient may be changed from here on.
  virtual void grad_ready(ParamId /*id*/, int /*microbatch*/) {}
};

}  // namespace phalanx::nn
