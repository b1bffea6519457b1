#pragma once
// A chunk is a list of consecutive units that a pipeline stage owns: layers, the embedding in front
// of the first, the head behind the last. It owns no memory: for every microbatch it is handed the
// tensors that saved_tensors() asks for.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/nn/unit.h"

namespace phalanx {

// Full activation recomputation: of a group of layers only the input is kept, and the group runs
// forward again before its backward.
struct RecomputePlan {
  enum class Method : std::uint8_t {
    kNone,
    kUniform,  // all layers, in groups of num_layers
    kBlock,    // the chunk's first num_layers layers, one by one
  };
  Method method = Method::kNone;
  std::int64_t num_layers = 1;
  // Ranks of the tensor-parallel group that keep a share of a group's input each, and gather it
  // again (--distribute-saved-activations). The input is the same on all of them.
  int input_shards = 1;
};

class Chunk {
 public:
  explicit Chunk(std::vector<std::unique_ptr<nn::Unit>> units, const RecomputePlan& recompute = {});

  const std::vector<std::unique_ptr<nn::Unit>>& units() const { return units_; }
  int num_units() const { return static_cast<int>(units_.size()); }
  // Leaves out the backward work of parameters that are not trained. `table` has the parameters of
  // the units. Unless `passes_gradient`, earlier stages train nothing, so units in front of the
  // first that has a trained parameter have no backward passes. Before the first pass.
  void leave_out_frozen(const nn::ParamTable& table, bool passes_gradient);
  // Units in front of this one have no backward passes.
  int first_backward() const { return first_backward_; }
  // The last of the units that are recomputed together with this one; -1: it is not recomputed.
  int recomputed_until(int unit) const;
  // What the chunk gets from the previous stage, and what it passes to the next.
  const std::vector<nn::StreamSpec>& inputs() const { return units_.front()->inputs(); }
  const std::vector<nn::StreamSpec>& outputs() const { return units_.back()->outputs(); }

  // In the order that the passes expect. A forward-only microbatch keeps nothing after its forward
  // pass.
  std::vector<SavedTensor> saved_tensors(const nn::BatchShapes& shapes, bool forward_only) const;

  // Those of the tensors of saved_tensors() that are inputs() or outputs(), or their gradients.
  Tensors input_streams(Tensors tensors) const;
  Tensors output_streams(Tensors tensors) const;
  Tensors input_gradients(Tensors tensors) const;
  Tensors output_gradients(Tensors tensors) const;

  // `tensors` are the tensors of saved_tensors(). Hooks are called around every unit.
  void forward(nn::Pass& pass, Tensors tensors, nn::UnitHooks& hooks, int microbatch) const;
  // For generation and scoring: `tensors` are those of a forward-only microbatch.
  void infer(nn::InferencePass& whole, Tensors tensors) const;
  void backward_input(nn::Pass& pass, Tensors tensors, nn::UnitHooks& hooks, int microbatch) const;
  void backward_weight(nn::Pass& pass, Tensors tensors, const nn::Gradients& gradients,
                       nn::UnitHooks& hooks, int microbatch) const;
  // Both, unit by unit: what only the weight pass needs is free one unit later.
  void backward(nn::Pass& pass, Tensors tensors, const nn::Gradients& gradients,
                nn::UnitHooks& hooks, int microbatch) const;

 private:
  // A saved tensor before the batch's shape is known.
  struct Entry {
    std::string name;
    DType dtype;
    using ShapeOf = std::function<Shape(const nn::BatchShapes&)>;
    ShapeOf shape;
    PassPoint born, last;
    int forward_last = 0;  // if it is born in the forward pass: the last unit that uses it there
    int same_as = -1;
  };
  // The two entries of a carried stream, which all its units share.
  struct Carried {
    std::size_t stream, gradient;
  };
  // The numbers of a unit's first entries. What is recomputed has two: one for the forward pass,
  // one from the recomputation on.
  struct PassPlaces {
    std::size_t inputs, outputs, slots;
  };
  struct UnitPlaces {
    PassPlaces forward, backward;
    std::size_t input_gradients, output_gradients;
    std::size_t input_share;  // of a group's first unit, where inputs are distributed
    int group = -1;
  };
  // Whether backward neither reads nor writes a tensor, because the units that do so have no
  // backward passes.
  bool is_forward_alone(const Entry& entry) const;
  // Units [first, last] that are recomputed together.
  struct Group {
    std::size_t first, last;
  };
  // How a unit's inputs, or the chunk's outputs, are kept for backward.
  enum class InputCopies {
    kOne,         // from the forward pass to the last read
    kRecomputed,  // a second one, which the recomputation of the unit before it writes
    kGathered,    // a share, and a second one that is gathered from the ranks' shares
  };
  void form_groups();
  InputCopies input_copies(std::size_t u) const;
  PassPoint last_read_of_inputs(std::size_t u) const;
  // Where backward begins to run the unit's group forward again.
  PassPoint recomputation_of(std::size_t u) const;
  void add_streams(std::size_t u);
  static Entry gradient_entry(const nn::StreamSpec& stream, std::size_t u);
  void add_carried(const nn::StreamSpec& stream, std::size_t u);
  std::size_t add_alias(std::size_t shared);
  void add_slots(std::size_t u);
  bool begins_group(std::size_t u) const;
  std::size_t add(Entry entry);
  // Zeroes the gradients of carried streams that no unit behind this one reads.
  void begin_gradients(nn::Pass& pass, Tensors tensors, std::size_t unit) const;
  void recompute(nn::Pass& whole, Tensors tensors, nn::UnitHooks& hooks, int microbatch,
                 const Group& group) const;
  // Runs the group forward again if the unit is its last.
  void recompute_before(nn::Pass& pass, Tensors tensors, nn::UnitHooks& hooks, int microbatch,
                        std::size_t unit) const;

  void forward_unit(nn::Pass& whole, Tensors tensors, nn::UnitHooks& hooks, int microbatch,
                    std::size_t unit) const;
  void backward_input_unit(nn::Pass& whole, Tensors tensors, nn::UnitHooks& hooks, int microbatch,
                           std::size_t unit) const;
  void backward_weight_unit(nn::Pass& whole, Tensors tensors, const nn::Gradients& gradients,
                            nn::UnitHooks& hooks, int microbatch, std::size_t unit) const;
  void backward_unit(nn::Pass& whole, Tensors tensors, const nn::Gradients& gradients,
                     nn::UnitHooks& hooks, int microbatch, std::size_t unit) const;
  // What a unit's backward passes are given, except the main gradients.
  nn::UnitTensors backward_tensors(const nn::Pass& pass, Tensors tensors, std::size_t unit) const;

  std::vector<std::unique_ptr<nn::Unit>> units_;
  RecomputePlan recompute_;
  std::vector<Group> groups_;
  std::vector<UnitPlaces> places_;
  std::vector<Entry> entries_;
  std::map<std::string, Carried> carried_;     // by name
  std::vector<std::vector<ParamId>> trained_;  // by unit: the parameters that have gradients
  int first_backward_ = 0;
  bool passes_gradient_ = true;  // to the previous stage
};

}  // namespace phalanx
