#pragma once
// A chunk of units that compute nothing, for tests of hooks: an embedding and a head that share a
// word table, and two layers between.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/data_parallel/test_support.h"
#include "phalanx/data_parallel/unit_order.h"

namespace phalanx {

class FakeUnit final : public nn::Unit {
 public:
  // `reads_backward`: its backward passes read the same weights as its forward pass.
  FakeUnit(std::string name, std::vector<ParamId> parameters, bool reads_backward = true)
      : Unit(std::move(name)), reads_backward_(reads_backward) {
    parameters_ = std::move(parameters);
  }
  const std::vector<ParamId>& needs(nn::PassKind pass) const override {
    return pass == nn::PassKind::kForward || reads_backward_ ? parameters_ : nothing_;
  }
  void forward(nn::Pass& /*pass*/, Tensors /*inputs*/, Tensors /*outputs*/,
               const nn::Saved& /*saved*/) const override {}
  void backward_input(nn::Pass& /*pass*/, Tensors /*inputs*/, Tensors /*output_gradients*/,
                      Tensors /*input_gradients*/, const nn::Saved& /*saved*/) const override {}
  void backward_weight(nn::Pass& /*pass*/, Tensors /*inputs*/, const nn::Saved& /*saved*/,
                       const nn::Gradients& /*gradients*/) const override {}

 private:
  bool reads_backward_;
  std::vector<ParamId> nothing_;
};

// The arguments of hooks for a pass with weights only.
struct EmptyPass {
  EmptyPass(Context& context, const nn::Weights& read)
      : weights(read),
        pass{.ops = context,
             .weights = weights,
             .batch = batch,
             .shapes = {},
             .region = {},
             .loss_settings = {},
             .losses = {}} {}
  EmptyPass(const EmptyPass&) = delete;
  EmptyPass& operator=(const EmptyPass&) = delete;

  nn::UnitTensors tensors() const { return {pass, {}, {}, {}, {}, {}}; }

  nn::Weights weights;
  nn::Batch batch;
  nn::Pass pass;
};

struct UnitChunk {
  // Norms and biases may act on a sequence-parallel stream.
  explicit UnitChunk(DType dtype = DType::kF64, bool is_sequence_parallel = false) {
    constexpr Initialiser kNormal{Initialiser::Kind::kNormal, 0.5};
    ParamSpec words = whole_parameter("words", {61, 97}, dtype, kNormal, 64);
    words.shared_by = "embd";
    const auto vector = [&](const std::string& name, std::int64_t count) {
      ParamSpec spec = whole_parameter(name, {count}, dtype, kNormal);
      if (is_sequence_parallel) spec.summed_over = kRowAxes.with(Axis::kTensor);
      return table.add(spec);
    };
    embedding = table.add_shared(words, {.order = kEmbeddingRole});
    std::vector<ParamId> first = {embedding.id};
    first.push_back(table.add(whole_parameter("positions", {50, 97}, dtype, kNormal)));
    units.push_back(std::make_unique<FakeUnit>("embedding", first, false));
    for (const char* layer : {"0", "1"}) {
      std::vector<ParamId> own;
      const std::string name(layer);
      own.push_back(vector(name + ".norm", 97));
      own.push_back(table.add(whole_parameter(name + ".weight", {97, 131}, dtype, kNormal)));
      own.push_back(vector(name + ".bias", 97));
      units.push_back(std::make_unique<FakeUnit>("layer " + name, own));
    }
    head = table.add_shared(words, {.order = kHeadRole});
    const ParamId norm = vector("norm", 96);
    units.push_back(std::make_unique<FakeUnit>("head", std::vector<ParamId>{norm, head.id}));
  }

  ParamGroups groups(std::int64_t stays_below = -1) const {
    return unit_groups(table, {UnitList(units)}, [=](const ParamSpec& spec) {
      return spec.local_shape.count() <= stays_below;
    });
  }
  UnitOrder order(const ParamGroups& groups,
                  const std::vector<int>& recomputed_until = {-1, -1, -1, -1}) const {
    return unit_order(units, recomputed_until, groups);
  }
  // How many units of a microbatch add to each gradient.
  std::vector<int> uses() const {
    std::vector<int> uses(table.specs().size(), 0);
    for (const auto& unit : units) {
      for (const ParamId id : unit->parameters()) ++uses[static_cast<std::size_t>(id)];
    }
    return uses;
  }

  nn::ParamTable table;
  nn::ParamUse embedding, head;  // the two uses of the word table
  std::vector<std::unique_ptr<nn::Unit>> units;
};

}  // namespace phalanx
