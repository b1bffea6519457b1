#include "phalanx/ops/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "phalanx/base/error.h"

namespace phalanx::ops {
namespace {

template <typename Op>
constexpr std::size_t kNumber = number_in<Op>(OpList());

struct Text {
  std::size_t op;
  const char* format;  // of the value and the limit
};
constexpr auto kTexts = std::to_array<Text>({
    {kNumber<SortPairs>, "sort_pairs: expert {} of {}"},
    {kNumber<AddPositions>, "add_positions: position {} of a table of {}"},
    {kNumber<SparseEmbeddingGradient>, "sparse_embedding_gradient: more than {1} distinct rows"},
    {kNumber<Rotate>, "rotate: position {} of a table of {}"},
    {kNumber<CrossEntropy>, "cross_entropy: target {} of a vocabulary of {}"},
    {kNumber<CrossEntropyStatistics>, "cross_entropy: target {} of a vocabulary of {}"},
    {kNumber<VocabularyParallelCrossEntropy>, "cross_entropy: target {} of a vocabulary of {}"},
    {kNumber<RouterForward>, "router_forward: the logit of expert {} of {} is not finite"},
    {kNumber<SinkhornChoice>, "sinkhorn_choice: the logit of expert {} of {} is not finite"},
});

}  // namespace

std::string text_of(const Fault& fault) {
  const auto* const text = std::ranges::find(kTexts, fault.op, &Text::op);
  PHALANX_CHECK(text != kTexts.end(), "a fault in row {} of op {}, which finds none", fault.row,
                fault.op);
  return fmt::format(fmt::runtime(text->format), fault.value, fault.limit);
}

void fail(const Fault& fault) {
  throw InternalError("internal error: {} (row {})", text_of(fault), fault.row);
}

std::optional<Fault> fault_in(const FaultWords& words) {
  if (words[0] == kNoFault[0]) return std::nullopt;
  constexpr std::uint64_t kRowBits = 40;
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  return Fault{.op = words[0] >> kRowBits,
               .row = static_cast<std::int64_t>(words[0] & ((std::uint64_t{1} << kRowBits) - 1)),
               .value = static_cast<std::int32_t>(low(words[1])),
               .limit = low(words[2])};
}

}  // namespace phalanx::ops
