#pragma once
// A trained model that computes forward passes alone, on one rank or as one of a tensor-parallel
// group. Built on the planning backend first, where rehearsals leave the sizes of its arenas, as a
// training rank is.

#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/model/model.h"
#include "phalanx/nn/inference_pass.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class CheckpointReader;

struct InferenceArenas {
  Arena parameters, constants, cache, transient, workspace;

  static InferenceArenas planning();
  // Memory for what these, of planning models, have seen.
  InferenceArenas sized() const;
  std::int64_t bytes() const;
};

class InferenceModel {
 public:
  // `group` is the tensor-parallel group, whose layout the model is built for; null: one rank.
  InferenceModel(const Model& model, std::unique_ptr<Backend> backend, InferenceArenas arenas,
                 Communicator* group = nullptr);
  InferenceModel(const InferenceModel&) = delete;
  InferenceModel& operator=(const InferenceModel&) = delete;

  // Errors as CheckpointReader::read().
  void load(const CheckpointReader& checkpoint);
  // Instead: as a new model starts.
  void initialise(PhiloxKey key);

  // What a pass leaves; see nn::InferencePass.
  struct Results {
    std::span<const nn::LossTerm> losses = {};
    std::span<nn::KeyValueCache* const> caches = {};
    Tensor logits = {};
    Tensor row_losses = {};
  };
  // Over all samples of the batch.
  void infer(const nn::Batch& batch, const Results& results);

  Context& context() { return context_; }
  InferenceArenas& arenas() { return arenas_; }
  std::int64_t padded_vocabulary() const { return padded_vocabulary_; }

  template <typename T>
  void upload(const Tensor& destination, const std::vector<T>& source) {
    backend_->upload(context_.queue, destination, std::as_bytes(std::span(source)));
  }
  template <typename T>
  void read_back(const Tensor& source, std::span<T> destination) {
    backend_->read_back(context_.queue, source, std::as_writable_bytes(destination));
  }

 private:
  // The tensors of saved_tensors().
  std::vector<Tensor> place(const nn::BatchShapes& shapes);
  std::span<const Tensor> placed(const nn::BatchShapes& shapes);

  std::unique_ptr<Backend> backend_;
  InferenceArenas arenas_;
  Context context_;
  TensorRegion region_;
  nn::ParamTable table_;
  Chunk chunk_;
  ParameterStore parameters_;
  nn::Constants constants_;
  std::int64_t padded_vocabulary_;
  // Of batches of one position by their samples, which come once a token; of another one the last.
  std::map<std::int64_t, std::vector<Tensor>> steps_;
  std::vector<Tensor> last_;
};

// [rows, 1] of each coordinate.
RowCoordinates allocate_rows(Arena& arena, std::int64_t rows);

// ConfigError or SystemError where the machine has not the memory that `planned` says or the
// threads; `remedy` as check_memory() has it.
void expect_room(const TrainConfig& config, const InferenceArenas& planned,
                 std::string_view remedy);

}  // namespace phalanx
