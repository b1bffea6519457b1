#pragma once
// A language model without layers: its logits are a made-up function of all tokens of a sequence.
// It is for tests of the code that chooses tokens.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/inference/sequence_model.h"

namespace phalanx {

class MadeUpModel final : public SequenceModel {
 public:
  MadeUpModel(std::int64_t vocabulary, int sequences, std::int64_t capacity)
      : vocabulary_(vocabulary),
        capacity_(capacity),
        tokens_(static_cast<std::size_t>(sequences)) {}

  // The logits behind these tokens.
  std::vector<float> logits(const std::vector<std::int32_t>& tokens) const {
    std::uint32_t state = 17;
    for (const std::int32_t token : tokens) {
      state = state * 1664525U + static_cast<std::uint32_t>(token) * 977U + 1013904223U;
    }
    std::vector<float> result;
    for (std::int64_t id = 0; id < vocabulary_; ++id) {
      state = state * 1664525U + 1013904223U;
      result.push_back(static_cast<float>(state >> 8) / 4.0e6F);
    }
    return result;
  }
  std::vector<double> log_probabilities(const std::vector<std::int32_t>& tokens) const {
    double sum = 0.0;
    const std::vector<float> all = logits(tokens);
    for (const float logit : all) sum += std::exp(static_cast<double>(logit));
    std::vector<double> result;
    for (const float logit : all) result.push_back(logit - std::log(sum));
    return result;
  }

  std::int64_t vocabulary() const override { return vocabulary_; }
  int sequences() const override { return static_cast<int>(tokens_.size()); }
  std::int64_t capacity() const override { return capacity_; }
  std::int64_t length(int sequence) const override { return std::ssize(at(sequence)); }
  void truncate(int sequence, std::int64_t length) override {
    at(sequence).resize(static_cast<std::size_t>(length));
  }
  void copy(int from, int to) override { at(to) = at(from); }
  std::vector<float> read(int sequence, std::span<const std::int32_t> tokens) override {
    at(sequence).insert(at(sequence).end(), tokens.begin(), tokens.end());
    PHALANX_CHECK(length(sequence) <= capacity_, "{} tokens", length(sequence));
    return logits(at(sequence));
  }
  std::vector<float> step(std::span<const Next> next) override {
    most_together = std::max(most_together, next.size());
    std::vector<float> all;
    for (const Next& one : next) {
      const std::vector<float> own = read(one.sequence, std::span(&one.token, 1));
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  std::size_t most_together = 0;  // the most sequences of a step

 private:
  std::vector<std::int32_t>& at(int sequence) {
    return tokens_[static_cast<std::size_t>(sequence)];
  }
  const std::vector<std::int32_t>& at(int sequence) const {
    return tokens_[static_cast<std::size_t>(sequence)];
  }

  std::int64_t vocabulary_, capacity_;
  std::vector<std::vector<std::int32_t>> tokens_;
};

}  // namespace phalanx
