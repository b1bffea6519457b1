#pragma once
// Text from a model: the prompt in one forward pass, then one token at a time over a key/value
// cache.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/model/chunk.h"
#include "phalanx/nn/pass.h"
#include "phalanx/ops/cpu/device.h"
#include "phalanx/train/config.h"
#include "phalanx/train/config_views.h"
#include "phalanx/train/sampling.h"

namespace phalanx {

class CheckpointReader;

class Generator {
 public:
  // Loads the weights; `config` is the resolved configuration of the checkpoint. Memory is planned
  // for a prompt of `prompt_length` tokens and at most `capacity` positions (prompt and answer), no
  // more than the model's.
  Generator(const TrainConfig& config, const GptConfig& model, const CheckpointReader& checkpoint,
            cpu::ProductPrecision products, std::int64_t prompt_length, std::int64_t capacity);
  ~Generator();

  // Calls `on_token` with each new id; ends after `count` ids, at the capacity, or when it answers
  // false.
  void generate(std::span<const std::int32_t> prompt, std::int64_t count,
                const SamplingOptions& options, const std::function<bool(std::int32_t)>& on_token);

  // Logits [vocabulary] of the token behind `tokens`, whose first `begin` are in the cache already.
  std::vector<float> logits(std::span<const std::int32_t> tokens, std::int64_t begin);

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
  std::int64_t vocabulary_;
  std::int64_t capacity_;
};

}  // namespace phalanx
