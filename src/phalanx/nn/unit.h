#pragma once
// A unit is an element of a pipeline stage's list: the embedding, each layer, the head. It has
// three passes, written by hand:
//
//   forward          reads input, parameters      writes output, and into saved what backward needs
//   backward_input   reads output gradient, saved writes input gradient, and into saved the output
//                                                 gradients of its linears for backward_weight
//   backward_weight  reads saved                  adds into the fp32 main gradients
//
// Units are immutable: the state of a microbatch is in the arguments.

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
  // One tensor that several units read. A unit lists it as an input and, under the same name, as an
  // output, and writes it only if it is no input. All readers add to one gradient, which starts as
  // the next stage's, or as zeros if no later unit reads the stream.
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

  virtual void forward(Pass& pass, Tensors inputs, Tensors outputs, const Saved& saved) const = 0;
  virtual void backward_input(Pass& pass, Tensors inputs, Tensors output_gradients,
                              Tensors input_gradients, const Saved& saved) const = 0;
  virtual void backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                               const Gradients& gradients) const = 0;

  // Both backward passes, in an order that hides messages; the bits are the same.
  virtual void backward(Pass& pass, Tensors inputs, Tensors output_gradients,
                        Tensors input_gradients, const Saved& saved,
                        const Gradients& gradients) const {
    backward_input(pass, inputs, output_gradients, input_gradients, saved);
    backward_weight(pass, inputs, saved, gradients);
  }

  // The forward pass of generation and scoring.
  virtual void infer(InferencePass& pass, Tensors inputs, Tensors outputs,
                     const Saved& saved) const {
    forward(pass.pass, inputs, outputs, saved);
  }

  // Whether activation recomputation applies to this unit. recompute() rewrites, bit for bit, the
  // tensors in `saved` that backward reads. It writes no outputs.
  virtual bool recomputable() const { return false; }
  virtual void recompute(Pass& /*pass*/, Tensors /*inputs*/, const Saved& /*saved*/) const {
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

// All tensors of a pass of a unit. Those that this kind of pass does not have are empty.
struct UnitTensors {
  const Pass& pass;
  Tensors inputs, outputs;
  Tensors output_gradients, input_gradients;
  Tensors slots;  // by SavedId
  const Gradients* gradients = nullptr;
};

// Callbacks of the chunk around every pass of a unit, for example to gather weights, to sum
// gradients, to move saved tensors to files, or to find NaN.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before(const Unit& /*unit*/, PassKind /*pass*/, int /*microbatch*/) {}
  virtual void after(const Unit& /*unit*/, PassKind /*pass*/, int /*microbatch*/,
                     const UnitTensors& /*tensors*/) {}
  // The parameter's gradient of this microbatch is complete, and after() of every hook has
  // returned. The hook may change the gradient.
  virtual void grad_ready(ParamId /*id*/, int /*microbatch*/) {}
};

}  // namespace phalanx::nn
