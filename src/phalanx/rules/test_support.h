#pragma once
// For tests of the rules: a small run that resolve() accepts, and helpers that change a flag of it.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/train_config.h"

namespace phalanx::config_tests {

inline TrainConfig valid() {
  TrainConfig c;
  c.model.num_layers = 2;
  c.model.hidden_size = 64;
  c.model.num_attention_heads = 4;
  c.model.max_position_embeddings = 32;
  c.data.seq_length = 32;
  c.layout.micro_batch_size = 2;
  c.layout.global_batch_size = 8;
  c.run.train_iters = 100;
  c.optimizer.lr = 1e-3;
  c.data.data_path = {"data"};
  return c;
}

using Change = std::function<void(TrainConfig&)>;

// The message must name the flags to blame, and the numbers where they matter.
inline void expect_refused(const Change& spoil, const std::vector<std::string>& parts) {
  TrainConfig c = valid();
  spoil(c);
  try {
    resolve(c, true);
    FAIL() << parts.front() << " was accepted";
  } catch (const ConfigError& error) {
    for (const auto& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << part << " is not in: " << error.what();
    }
  }
}
inline void expect_refused(const Change& spoil, const char* flag) {
  expect_refused(spoil, std::vector<std::string>{flag});
}

inline TrainConfig resolved(const Change& change) {
  TrainConfig c = valid();
  change(c);
  resolve(c, true);
  return c;
}

inline void two_tensor_ranks(TrainConfig& c) {
  c.layout.world_size = 2;
  c.layout.tensor_model_parallel_size = 2;
}

}  // namespace phalanx::config_tests
