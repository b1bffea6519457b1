#pragma once
// A model as training sees it: what a microbatch of it is, what losses it has, and chunks of units
// for any stage of a pipeline. Every model family has one (model/gpt.h, model/bert.h, model/t5.h);
// training, planning and sampling know none of them by name.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/base/batch_schema.h"
#include "phalanx/model/chunk.h"
#include "phalanx/model/stage_plan.h"
#include "phalanx/nn/config.h"

namespace phalanx {

struct LossSpec {
  std::string name;  // Megatron's: "lm loss"
  // The batch's column (f32) that says which rows count; empty: every sample counts.
  std::string mask;
  // To be printed, where Megatron's name misleads; empty: the name.
  std::string title = {};
};

// A loss that layers add in training (nn::AuxiliaryTerm). It is the mean over the microbatches of a
// step, and what is reported the mean over the layers that have it.
struct AuxiliaryLossSpec {
  std::string name;  // Megatron's: "load_balancing_loss"
  std::int64_t layers = 1;
};

// How the vocabulary is padded, to be printed.
struct VocabularySize {
  std::int64_t ids = 0;
  std::int64_t padded = 0;
};

// Whose part of the model it is.
struct ModelPlace {
  int tensor_rank = 0;
  // Without: all experts, whole.
  ExpertParallel experts = {};
};

class Model {
 public:
  virtual ~Model() = default;

  // The same model as the rank at another place holds it.
  virtual std::unique_ptr<const Model> placed(const ModelPlace& place) const = 0;
  // The first stack's. All stacks have the same dtype, tensor-parallel layout and attention kernel.
  virtual const nn::TransformerConfig& transformer() const = 0;
  virtual VocabularySize vocabulary() const = 0;

  virtual BatchSchema batch_schema() const = 0;
  // What the coordinates in batches keep to, whoever makes them: kernels rely on it.
  // --check-batches verifies it.
  virtual nn::RowPatterns row_patterns() const { return {}; }
  // At least one.
  virtual std::vector<LossSpec> losses() const = 0;
  virtual std::vector<AuxiliaryLossSpec> auxiliary_losses() const { return {}; }

  // All of it on one stage.
  virtual StageRange whole() const = 0;
  // The next chunk of the rank whose parameters are in `table`: the chunk's are appended in global
  // parameter order.
  virtual Chunk build_chunk(const StageRange& range, nn::ParamTable& table) const = 0;

  // The tokens of a sample in throughput figures: of all its sequences.
  virtual std::int64_t tokens_per_sample() const = 0;
  // Floating-point operations of the model for one sample, forward and backward (the convention of
  // performance tables: 6 per matrix weight and token, full attention).
  virtual double flops_per_sample() const = 0;
  // Of these, for a document of `tokens` tokens that sees itself alone.
  virtual double flops_of_document(std::int64_t tokens) const {
    return flops_per_sample() * static_cast<double>(tokens) /
           static_cast<double>(tokens_per_sample());
  }

  // Without vocabulary padding; shared ones count once.
  std::int64_t parameters() const;
  // Of these, those with which a token is computed: with experts not all of them.
  virtual std::int64_t active_parameters() const { return parameters(); }
};

}  // namespace phalanx
