#pragma once
// A GPT that continues one sequence with the weights of a model that is trained: they are read
// where they are. Keys, values and scratch have their place in one tensor, whose size is planned.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/inference/sequence_model.h"
#include "phalanx/model/gpt.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx {

class CachedRank;

class LentModel final : public SequenceModel {
 public:
  // The bytes that sequences of `capacity` positions take besides the weights, on one rank.
  static std::int64_t bytes(const GptConfig& model, std::int64_t capacity,
                            const DeviceChoice& device, int threads);

  struct Lender {
    Backend& backend;
    const nn::ParamTable& table;
    Tensors weights;  // by id, whole
  };
  // `memory`: u8, bytes() of it. All must outlive the model.
  LentModel(const GptConfig& model, std::int64_t capacity, const DeviceChoice& device, int threads,
            const Lender& lender, const Tensor& memory);
  ~LentModel() override;

  std::int64_t vocabulary() const override { return vocabulary_; }
  int sequences() const override { return 1; }
  std::int64_t capacity() const override;
  std::int64_t length(int /*sequence*/) const override { return length_; }
  void truncate(int sequence, std::int64_t length) override;
  void copy(int from, int to) override;
  std::vector<float> read(int sequence, std::span<const std::int32_t> tokens) override;
  std::vector<float> step(std::span<const Next> next) override;

 private:
  std::int64_t vocabulary_;
  std::unique_ptr<CachedRank> rank_;
  std::int64_t length_ = 0;
};

}  // namespace phalanx
