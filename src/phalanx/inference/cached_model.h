#pragma once
// A GPT that remembers keys and values of several sequences, on one rank or on several
// tensor-parallel ones, threads of this process. Sequences share the passes over the weights, and
// attention is computed for each by itself, so none depends on those beside it. Long texts are read
// in pieces, which bound the workspace and change no bit.

#include <memory>
#include <span>
#include <vector>

#include "phalanx/inference/sequence_model.h"
#include "phalanx/model/gpt.h"
#include "phalanx/ops/device_choice.h"

namespace phalanx {

class CheckpointReader;
class Communicator;
class LocalTeam;

// Bytes of one rank.
struct GenerationMemory {
  std::int64_t parameters = 0;
  std::int64_t cache = 0;      // keys and values of all sequences, in storage type
  std::int64_t constants = 0;  // tables of the model, and coordinates of the cache's rows
  std::int64_t workspace = 0;  // with the activations of a pass
  int ranks = 1;

  std::int64_t total() const { return parameters + cache + constants + workspace; }
};

class CachedModel final : public SequenceModel {
 public:
  struct Sizes {
    // Tokens of each read() to come.
    std::vector<std::int64_t> reads;
    // Positions of a sequence, at most the model's.
    std::int64_t capacity = 0;
    int sequences = 1;
  };
  // Plans; allocates nothing. The ranks are those of the model's tensor-parallel layout, each on so
  // many threads.
  CachedModel(GptConfig model, const DeviceChoice& device, int threads_per_rank, Sizes sizes);
  ~CachedModel() override;

  const GenerationMemory& memory() const { return memory_; }
  // Before anything else: the weights. Errors as CheckpointReader::read(); SystemError where the
  // system has not the memory or the threads.
  void load(const CheckpointReader& checkpoint);
  // Instead: as a new model starts.
  void initialise();

  std::int64_t vocabulary() const override { return model_.vocabulary; }
  int sequences() const override { return sizes_.sequences; }
  std::int64_t capacity() const override { return sizes_.capacity; }
  std::int64_t length(int sequence) const override {
    return lengths_[static_cast<std::size_t>(sequence)];
  }
  void truncate(int sequence, std::int64_t length) override;
  void copy(int from, int to) override;
  std::vector<float> read(int sequence, std::span<const std::int32_t> tokens) override;
  std::vector<float> step(std::span<const Next> next) override;

  // Tokens that are read at a time at most.
  static constexpr std::int64_t kPiece = 256;

 private:
  class Rank;
  void start();

  GptConfig model_;
  DeviceChoice device_;
  int threads_;
  Sizes sizes_;
  GenerationMemory memory_;
  std::vector<std::int64_t> lengths_;
  std::unique_ptr<Communicator> nobody_;  // whom the rehearsal talks to
  std::unique_ptr<Rank> rehearsal_;       // until there are ranks
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::unique_ptr<LocalTeam> team_;
};

}  // namespace phalanx
