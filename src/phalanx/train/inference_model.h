#pragma once
// A trained model on one rank that computes forward passes alone, a sequence at a time. Built on
// the planning backend first, where rehearsals leave the sizes of its arenas, as a training rank
// is.

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/model/model.h"
#include "phalanx/nn/inference_pass.h"
#include "phalanx/train/config.h"

namespace phalanx {

class CheckpointReader;

struct InferenceArenas {
  Arena parameters, unused, constants, cache, transient, workspace;

  static InferenceArenas planning();
  // Memory for what these, of planning models, have seen.
  InferenceArenas sized() const;
  std::int64_t bytes() const;
};

class InferenceModel {
 public:
  InferenceModel(const Model& model, std::unique_ptr<Backend> backend, InferenceArenas arenas);
  InferenceModel(const InferenceModel&) = delete;
  InferenceModel& operator=(const InferenceModel&) = delete;

  // Errors as CheckpointReader::read().
  void load(const CheckpointReader& checkpoint);

  // What a pass leaves; see nn::InferencePass.
  struct Results {
    std::span<const nn::LossTerm> losses = {};
    nn::KeyValueCache* cache = nullptr;
    Tensor logits = {};
    Tensor row_losses = {};
  };
  void infer(const nn::Batch& batch, const Results& results);

  Context& context() { return context_; }
  InferenceArenas& arenas() { return arenas_; }
  std::int64_t padded_vocabulary() const { return padded_vocabulary_; }

  template <typename T>
  void upload(const Tensor& destination, const std::vector<T>& source) {
    backend_->upload(context_.stream, destination, std::as_bytes(std::span(source)));
  }
  template <typename T>
  void read_back(const Tensor& source, std::span<T> destination) {
    backend_->read_back(context_.stream, source, std::as_writable_bytes(destination));
  }

 private:
  std::unique_ptr<Backend> backend_;
  InferenceArenas arenas_;
  Context context_;
  nn::ParamTable table_;
  Chunk chunk_;
  ParameterStore parameters_;
  nn::Constants constants_;
  std::int64_t padded_vocabulary_;
};

// [rows, 1] of each coordinate.
RowCoordinates allocate_rows(Arena& arena, std::int64_t rows);

// ConfigError or SystemError where the machine has not the memory that `planned` says or the
// threads; `remedy` as check_memory() has it.
void expect_room(const TrainConfig& config, const InferenceArenas& planned,
                 std::string_view remedy);

}  // namespace phalanx
