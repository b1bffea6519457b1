#pragma once
// Text from a model: the prompt in one forward pass, then one token at a time over a key/value
// cache.

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/ops/cpu/device.h"
#include "phalanx/train/config.h"
#include "phalanx/train/config_views.h"
#include "phalanx/train/sampling.h"

namespace phalanx {

class CheckpointReader;

class Generator {
 public:
  // Loads the weights; `config` is the resolved configuration of the checkpoint. Memory is planned
  // for prompts of these lengths in tokens and at most `capacity` positions (prompt and answer), no
  // more than the model's. `remedy` as check_memory() has it.
  Generator(const TrainConfig& config, const GptConfig& model, const CheckpointReader& checkpoint,
            cpu::ProductPrecision products, std::span<const std::int64_t> prompt_lengths,
            std::int64_t capacity, std::string_view remedy);
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
