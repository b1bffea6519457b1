#include "phalanx/planner/prediction_basis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <variant>

#include "phalanx/clock/pricing.h"

namespace phalanx {
namespace {

constexpr double kLikeMeasured = 2.0;  // doublings
constexpr std::size_t kMostNamed = 6;
constexpr std::array<std::string_view, 3> kManyKeys = {"op_rate_", "product_factor_",
                                                       "attention_share_"};

// The prefix that the key shares with many others; empty: it stands alone.
std::string_view prefix_of(std::string_view key) {
  const auto* const found = std::ranges::find_if(
      kManyKeys, [&](std::string_view prefix) { return key.starts_with(prefix); });
  return found == kManyKeys.end() ? std::string_view() : *found;
}

std::map<Origin, std::vector<std::string>> keys_of(const Machine& machine) {
  std::map<Origin, std::vector<std::string>> keys;
  std::map<std::pair<Origin, std::string_view>, int> many;
  const auto add = [&](const NamedQuantity& number) {
    const Origin origin = number.quantity.origin;
    const std::string_view prefix = prefix_of(number.key);
    if (prefix.empty()) {
      keys[origin].push_back(number.key);
    } else {
      ++many[{origin, prefix}];
    }
  };
  for (const NamedQuantity& number : quantities_of(machine.device)) add(number);
  for (const NamedQuantity& number : quantities_of(machine.cluster)) add(number);
  for (const auto& [ranks, row] : machine.cluster.measured_ranks) {
    keys[row.rate->origin].push_back(fmt::format("ranks_{}", ranks));
  }
  for (const auto& [key, count] : many) {
    keys[key.first].push_back(fmt::format("{}* ({})", key.second, count));
  }
  return keys;
}

// Each once, the largest first.
std::vector<std::string> unlike_measured(std::span<const RankTrace> traces,
                                         const std::vector<MeasuredProduct>& measured) {
  std::vector<std::pair<double, std::string>> found;
  if (measured.empty()) return {};
  for (const RankTrace& trace : traces) {
    for (const Trace& events : trace.distinct) {
      for_each_event<OpRun>(events, [&](const OpRun& op) {
        const auto product = product_of(op.cost);
        if (!product || doublings_to_measured(measured, *product) <= kLikeMeasured) return;
        std::string text =
            fmt::format("{} {}x{}x{}", name_of(product->type), product->m, product->n, product->k);
        if (product->batch > 1) text += fmt::format(", {} times", product->batch);
        found.emplace_back(-product->flops(), std::move(text));
      });
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::vector<std::string> texts;
  for (auto& [flops, text] : found) texts.push_back(std::move(text));
  return texts;
}

}  // namespace

PredictionBasis basis_of(std::span<const RankTrace> traces, const Machine& machine) {
  return {.keys = keys_of(machine),
          .unlike_measured = unlike_measured(traces, machine.device.measured_products)};
}

std::string to_text(const PredictionBasis& basis) {
  std::string text;
  for (const auto& [origin, keys] : basis.keys) {
    if (origin == Origin::kDefault) {
      text += fmt::format("  assumed, not measured: {}\n", fmt::join(keys, " "));
    } else {
      text += fmt::format("  {}: {}\n", name_of(origin), fmt::join(keys, " "));
    }
  }
  if (basis.unlike_measured.empty()) return text;
  const std::size_t named = std::min(kMostNamed, basis.unlike_measured.size());
  text += fmt::format(
      "  warning: no product like these was measured, so their times are the formula's: {}",
      fmt::join(basis.unlike_measured.begin(),
                basis.unlike_measured.begin() + static_cast<std::ptrdiff_t>(named), "; "));
  if (named < basis.unlike_measured.size()) {
    text += fmt::format(" and {} more", basis.unlike_measured.size() - named);
  }
  return text + "\n";
}

}  // namespace phalanx
