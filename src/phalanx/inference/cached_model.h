#pragma once
// A GPT that keeps the keys and values of several sequences, on one rank or on tensor-parallel
// ranks, which are threads of this process. Sequences share the passes over the weights; attention
// is computed for each sequence alone, so that no sequence depends on another. Long texts are read
// in pieces, which bound the workspace and change no bit.

#include <memory>
#include <span>
#include <vector>

#include "phalanx/inference/sequence_model.h"
#include "phalanx/model/gpt.h"
#include "phalanx/ops/device_choice.h"

namespace phalanx {

class CachedRank;
class CheckpointReader;
class Communicator;
class LocalTeam;

// The most tokens that are read at once.
inline constexpr std::int64_t kMostReadAtOnce = 256;

// Bytes of one rank.
struct GenerationMemory {
  std::int64_t parameters = 0;
  std::int64_t cache = 0;      // keys and values of all sequences, in storage type
  std::int64_t constants = 0;  // tables of the model, and coordinates of the cache's rows
  std::int64_t workspace = 0;  // the activations of a pass included
  int ranks = 1;

  std::int64_t total() const { return parameters + cache + constants + workspace; }
};

class CachedModel final : public SequenceModel {
 public:
  struct Sizes {
    // The number of tokens of each later read().
    std::vector<std::int64_t> reads;
    // Positions of a sequence, at most as many as the model has.
    std::int64_t capacity = 0;
    int sequences = 1;
  };
  // Only plans the memory. There are as many ranks as the model's tensor-parallel layout has, with
  // `threads_per_rank` threads each.
  CachedModel(GptConfig model, const DeviceChoice& device, int threads_per_rank, Sizes sizes);
  ~CachedModel() override;

  const GenerationMemory& memory() const { return memory_; }
  // Allocates the memory and reads the weights; comes before any pass. Errors as
  // CheckpointReader::read(); SystemError where the system has not the memory or the threads.
  void load(const CheckpointReader& checkpoint);
  // Instead of load(): the weights of a new model.
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

  static constexpr std::int64_t kPiece = kMostReadAtOnce;

 private:
  void start();

  GptConfig model_;
  DeviceChoice device_;
  int threads_;
  Sizes sizes_;
  GenerationMemory memory_;
  std::vector<std::int64_t> lengths_;
  std::unique_ptr<Communicator> planning_group_;  // the rehearsal's
  std::unique_ptr<CachedRank> rehearsal_;         // until there are ranks
  std::vector<std::unique_ptr<CachedRank>> ranks_;
  std::unique_ptr<LocalTeam> team_;
};

}  // namespace phalanx
