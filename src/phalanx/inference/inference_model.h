#pragma once
// A trained model that computes only forward passes, on one rank or on the ranks of a
// tensor-parallel group. As for training, the model is built twice: first on the planning backend,
// where a rehearsal of its passes shows how large its arenas must be, then where it computes, in
// arenas of these sizes.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/data/host_batch.h"
#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/model/model.h"
#include "phalanx/nn/inference_pass.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class CheckpointReader;

struct InferenceArenas {
  Arena parameters, constants, cache, transient, workspace;

  // Of their high-water marks.
  std::int64_t bytes() const;
};

// The backend and the memory of a model.
struct InferenceResources {
  std::unique_ptr<ArenaMemory> memory;  // of the arenas; null: the host's
  std::unique_ptr<Backend> backend;     // null: `lent` has it
  InferenceArenas arenas;
  // What a model that is trained lends: its backend and its weights, which are read where they are.
  // `table` describes them; it is compared with the model's.
  struct Lent {
    Backend* backend = nullptr;
    const nn::ParamTable* table = nullptr;
    Tensors weights = {};
  };
  Lent lent = {};

  static InferenceResources planning(int threads, const DeviceChoice& device);
  // Memory of the sizes that a rehearsal in `planned` has used.
  static InferenceResources allocate(int threads, const DeviceChoice& device,
                                     const InferenceArenas& planned);
};

class InferenceModel {
 public:
  // `group` is the tensor-parallel group for whose layout the model is built; null: one rank.
  InferenceModel(const Model& model, InferenceResources resources, Communicator* group = nullptr);
  InferenceModel(const InferenceModel&) = delete;
  InferenceModel& operator=(const InferenceModel&) = delete;

  // Errors as CheckpointReader::read(). Not for lent weights.
  void load(const CheckpointReader& checkpoint);
  // Instead of load(): the weights of a new model.
  void initialise(PhiloxKey key);

  // One pass over a batch of the host, and what is read back of it.
  struct Request {
    std::int64_t losses = 0;      // of the model, if its head computes them
    std::int64_t row_losses = 0;  // rows; 0: not asked for
    Shape logits = {};            // [rows, columns] of the head's; none: not asked for
  };
  struct Answer {
    std::vector<float> row_losses, logits;
  };
  Answer answer(const HostBatch& batch, const Request& request);

  // The results of a pass; see nn::InferencePass.
  struct Results {
    std::span<const nn::LossTerm> losses = {};
    std::span<nn::KeyValueCache* const> caches = {};
    Tensor logits = {};
    Tensor row_losses = {};
  };
  // One pass over all samples of the batch.
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
    backend_->throw_faults(context_.queue);
    backend_->read_back(context_.queue, source, std::as_writable_bytes(destination));
  }

 private:
  // The tensors that units save, in the transient arena.
  std::vector<Tensor> place(const nn::BatchShapes& shapes);
  Tensors placed(const nn::BatchShapes& shapes);

  std::unique_ptr<ArenaMemory> memory_;
  std::unique_ptr<Backend> own_backend_;
  Backend* backend_;
  InferenceArenas arenas_;
  Context context_;
  TensorRegion region_;
  nn::ParamTable table_;
  Chunk chunk_;
  std::optional<ParameterStore> own_parameters_;  // where the weights are not lent
  nn::Weights weights_;
  nn::Constants constants_;
  std::int64_t padded_vocabulary_;
  // What place() has answered: for batches of one position, which come with every token, by their
  // number of samples; for other batches the last answer.
  std::map<std::int64_t, std::vector<Tensor>> steps_;
  std::vector<Tensor> last_;
};

// [rows, 1] of each coordinate.
RowCoordinates allocate_rows(Arena& arena, std::int64_t rows);

// A model on one rank with the weights of a checkpoint. `rehearse` is called with the model on the
// planning backend and makes every pass that will come. ConfigError or SystemError where the
// machine has not the memory or the threads; `remedy` as check_memory() has it.
std::unique_ptr<InferenceModel> load_rehearsed(
    const TrainConfig& config, const Model& model, const CheckpointReader& checkpoint,
    const DeviceChoice& device, std::string_view remedy,
    const std::function<void(InferenceModel&)>& rehearse);

}  // namespace phalanx
