#pragma once
// Megatron's made-up data (`--mock-data`): 100,000 documents, the same ones in every run.

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/data/token_sequences.h"

namespace phalanx {

// Document i is 1, 2, 3, ... modulo the vocabulary, and end-of-document. The lengths, 1 to 4,095
// tokens, are those of numpy.random.default_rng(0).integers(1, 4096, 100000, dtype=int32).
class MockSequences final : public TokenSequences {
 public:
  // ConfigError without an end-of-document id (below 0).
  MockSequences(std::int64_t vocabulary_size, std::int32_t eod);

  std::string_view name() const override { return "--mock-data"; }
  std::int64_t sequences() const override { return static_cast<std::int64_t>(lengths_.size()); }
  std::int32_t length(std::int64_t sequence) const override;
  SequenceLengths lengths(std::int64_t begin, std::int64_t end) const override {
    return SequenceLengths(std::span<const std::int32_t>(lengths_)).part(begin, end);
  }
  void get(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override;

 private:
  std::int64_t vocabulary_size_;
  std::int32_t eod_;
  std::vector<std::int32_t> lengths_;
};

}  // namespace phalanx
