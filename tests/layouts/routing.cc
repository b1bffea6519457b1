#include "routing.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// Absent where the unit has no such slot.
Tensor saved(const nn::Unit& unit, Tensors slots, std::string_view name) {
  const auto& all = unit.saved_slots();
  const auto found = std::ranges::find(all, name, &nn::SavedSlot::name);
  return found == all.end() ? Tensor{} : slots[static_cast<std::size_t>(found - all.begin())];
}

template <typename T>
std::span<T> row_of(const Tensor& matrix, std::int64_t row) {
  return matrix.select(0, row).span<T>();
}

float gap_of(std::span<const float> scores, std::size_t chosen) {
  std::vector<float> sorted(scores.begin(), scores.end());
  std::ranges::sort(sorted, std::greater<>());
  return chosen < sorted.size() ? sorted[chosen - 1] - sorted[chosen] : Choice{}.gap;
}

std::string text_of(const RoutedRow& row) {
  const auto& [layer, sample, place] = row;
  return fmt::format("{}, sample {}, row {}", layer, sample, place);
}

}  // namespace

void RoutingRecord::after(const nn::Unit& unit, nn::PassKind pass, int /*microbatch*/,
                          const nn::UnitTensors& tensors) {
  if (pass != nn::PassKind::kForward) return;
  const Tensor experts = saved(unit, tensors.slots, "chosen experts");
  if (!experts) return;
  const Tensor scores = saved(unit, tensors.slots, "router logits");
  const RowCoordinates rows = tensors.pass.stream_rows();
  const auto samples = rows.sample.span<std::int64_t>();
  const auto places = rows.position.span<std::int32_t>();
  const std::lock_guard lock(mutex_);
  for (std::int64_t r = 0; r < experts.shape[0]; ++r) {
    const auto chosen = row_of<std::int32_t>(experts, r);
    const auto index = static_cast<std::size_t>(r);
    const RoutedRow row{unit.name(), samples[index], places[index]};
    const bool is_new =
        map_.try_emplace(row, Choice{.experts = {chosen.begin(), chosen.end()},
                                     .gap = gap_of(row_of<float>(scores, r), chosen.size())})
            .second;
    PHALANX_CHECK(is_new, "{} is routed twice", text_of(row));
  }
}

std::string first_difference(const RoutingMap& a, const RoutingMap& b) {
  for (const auto& [row, choice] : b) {
    const auto other = a.find(row);
    if (other == a.end()) return text_of(row) + " is not routed";
    if (other->second.experts != choice.experts) {
      return fmt::format("{}: experts {} and {}, gaps {:.1e} and {:.1e}", text_of(row),
                         fmt::join(other->second.experts, " "), fmt::join(choice.experts, " "),
                         other->second.gap, choice.gap);
    }
  }
  return a.size() == b.size() ? "" : "rows that the other does not route";
}

float smallest_gap(const RoutingMap& map) {
  float smallest = Choice{}.gap;
  for (const auto& [row, choice] : map) smallest = std::min(smallest, choice.gap);
  return smallest;
}

}  // namespace phalanx
