#include "phalanx/clock/wanted_shapes.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace phalanx {
namespace {

bool is_one_of(std::string_view op, std::span<const std::string_view> names) {
  return std::ranges::find(names, op) != names.end();
}

}  // namespace

void WantedShapes::add(const OpCost& cost) {
  const ProductShape& product = cost.product;
  if (is_one_of(cost.name, kWantedProducts)) {
    if (product.batch != 1 || product.m_groups != 1 || product.k_groups != 1) return;
    WantedProduct wanted{
        .op = std::string(cost.name), .rows = product.m, .n = product.n, .k = product.k};
    if (cost.name == kWantedProducts[1]) std::swap(wanted.n, wanted.k);
    if (cost.name == kWantedProducts[2]) {
      wanted.rows = product.k;
      wanted.n = product.m;
      wanted.k = product.n;
    }
    if (std::ranges::find(products, wanted) == products.end()) {
      products.push_back(std::move(wanted));
    }
  } else if (is_one_of(cost.name, kWantedAttention)) {
    const AttentionShape& shape = cost.attention;
    if (shape.queries != shape.keys) return;
    const ops::AttentionSize size{shape.queries, shape.batch, shape.heads, shape.heads,
                                  shape.head_size};
    const bool is_there = std::ranges::any_of(attention, [&](const WantedAttention& there) {
      return there.op == cost.name && there.size == size;
    });
    if (!is_there) attention.push_back({std::string(cost.name), size});
  }
}

}  // namespace phalanx
