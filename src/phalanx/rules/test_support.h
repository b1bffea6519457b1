#pragma once
// For tests of the rules: a small run that resolve() accepts, and its results with flags.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/base/test_support.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"

namespace phalanx::config_tests {

inline TrainConfig valid() {
  return with_flags({},
                    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
                    "--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 8 "
                    "--train-iters 100 --lr 1e-3 --data-path data");
}

inline const std::string kTwoTensorRanks = "--world-size 2 --tensor-model-parallel-size 2 ";

// The error of the run `from` with these flags, or "no error".
inline std::string refusal_of(TrainConfig from, const std::string& flags = "") {
  set_flags(from, flags);
  return error_of<ConfigError>([&] { resolve(from, true); });
}

// The message must name the flags to blame, and the numbers where they matter.
inline void expect_refused(const TrainConfig& from, const std::string& flags,
                           const std::vector<std::string>& parts) {
  const std::string text = refusal_of(from, flags);
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos)
        << flags << ": " << part << " is not in: " << text;
  }
}
inline void expect_refused(const std::string& flags, const std::vector<std::string>& parts) {
  expect_refused(valid(), flags, parts);
}
inline void expect_refused(const std::string& flags, const char* part) {
  expect_refused(valid(), flags, {part});
}

inline TrainConfig resolved(TrainConfig from, const std::string& flags = "") {
  set_flags(from, flags);
  resolve(from, true);
  return from;
}
inline TrainConfig resolved(const std::string& flags = "") { return resolved(valid(), flags); }

// Parses `flags`, then `more`, into `config`. `plans`: as phalanx plan does.
inline TrainConfig parsed(TrainConfig config, const std::string& flags, bool plans = false,
                          const std::vector<std::string>& more = {}) {
  std::vector<std::string> words;
  for (const std::string_view word : words_of(flags)) words.emplace_back(word);
  words.insert(words.end(), more.begin(), more.end());
  FlagSet set(plans ? "phalanx plan gpt" : "phalanx pretrain gpt", "");
  add_train_flags(set, config);
  set.add_yaml();
  if (plans) set.plan_only();
  set.parse(words, nullptr, [&] { resolve(config, !plans); });
  return config;
}

}  // namespace phalanx::config_tests
