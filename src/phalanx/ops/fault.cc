#include "phalanx/ops/fault.h"

#include <fmt/format.h>

#include "phalanx/base/error.h"

namespace phalanx::ops {

std::string text_of(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kTarget:
      return fmt::format("cross_entropy: target {} of a vocabulary of {}", fault.value,
                         fault.limit);
    case FaultKind::kPosition:
      return fmt::format("add_positions: position {} of a table of {}", fault.value, fault.limit);
    case FaultKind::kRotaryPosition:
      return fmt::format("rotate: position {} of a table of {}", fault.value, fault.limit);
    case FaultKind::kDistinctRows:
      return fmt::format("sparse_embedding_gradient: more than {} distinct rows", fault.limit);
  }
  return {};
}

void fail(const Fault& fault) {
  throw InternalError("internal error: {} (row {})", text_of(fault), fault.row);
}

std::size_t FaultTable::word_of(FaultKind kind, std::int64_t limit) {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (words_[i].kind == kind && words_[i].limit == limit) return i;
  }
  PHALANX_CHECK(words_.size() < kWords, "more than {} tables and vocabularies that ops look into",
                kWords);
  words_.push_back({.kind = kind, .limit = limit});
  return words_.size() - 1;
}

std::optional<Fault> FaultTable::first_fault(std::span<const std::uint64_t> words) const {
  PHALANX_CHECK(words.size() >= words_.size(), "{} words of faults, {} are in use", words.size(),
                words_.size());
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (words[i] == kNoFault) continue;
    Fault fault = words_[i];
    fault.row = static_cast<std::int64_t>(words[i] >> 32);
    fault.value = static_cast<std::int32_t>(static_cast<std::uint32_t>(words[i]));
    return fault;
  }
  return std::nullopt;
}

}  // namespace phalanx::ops
