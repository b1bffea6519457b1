#include "phalanx/clock/wanted_shapes.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kProducts = {"linear_forward", "linear_input_gradient",
                                                       "linear_weight_gradient"};
constexpr std::array<std::string_view, 2> kAttention = {"attention_forward", "attention_backward"};
constexpr std::int64_t kLargest = std::int64_t{1} << 30;

bool is_one_of(std::string_view op, std::span<const std::string_view> names) {
  return std::ranges::find(names, op) != names.end();
}

std::int64_t size_in(const Json& entry, const char* field, std::string_view file) {
  const auto found = entry.find(field);
  if (found == entry.end() || !found->is_number_integer() || *found < 1 || *found > kLargest) {
    throw DataError("{}: {} of {} must be a whole number from 1 to {}", file, field, entry.dump(),
                    kLargest);
  }
  return *found;
}

std::string op_in(const Json& entry, std::span<const std::string_view> names,
                  std::string_view file) {
  const auto found = entry.find("op");
  if (found == entry.end() || !found->is_string() ||
      !is_one_of(found->get_ref<const std::string&>(), names)) {
    throw DataError(
        "{}: op of {} is none that is measured: write the file by phalanx plan "
        "--write-shapes",
        file, entry.dump());
  }
  return *found;
}

const Json& list_in(const Json& document, const char* field, std::string_view file) {
  const auto found = document.is_object() ? document.find(field) : document.end();
  if (found == document.end() || !found->is_array()) {
    throw DataError("{}: it has no list {}: write the file by phalanx plan --write-shapes", file,
                    field);
  }
  return *found;
}

}  // namespace

void WantedShapes::add(const OpCost& cost) {
  const ProductShape& product = cost.product;
  if (is_one_of(cost.name, kProducts)) {
    if (product.batch != 1 || product.m_groups != 1 || product.k_groups != 1) return;
    WantedProduct wanted{
        .op = std::string(cost.name), .rows = product.m, .n = product.n, .k = product.k};
    if (cost.name == kProducts[1]) std::swap(wanted.n, wanted.k);
    if (cost.name == kProducts[2]) {
      wanted.rows = product.k;
      wanted.n = product.m;
      wanted.k = product.n;
    }
    if (std::ranges::find(products, wanted) == products.end()) {
      products.push_back(std::move(wanted));
    }
  } else if (is_one_of(cost.name, kAttention)) {
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

std::string to_json(const WantedShapes& shapes) {
  Json products = Json::array();
  for (const auto& [op, rows, n, k] : shapes.products) {
    products.push_back({{"op", op}, {"rows", rows}, {"n", n}, {"k", k}});
  }
  Json attention = Json::array();
  for (const auto& [op, size] : shapes.attention) {
    attention.push_back({{"op", op},
                         {"rows", size.rows},
                         {"batch", size.batch},
                         {"heads", size.heads},
                         {"head_size", size.head_size}});
  }
  return Json{{"products", products}, {"attention", attention}}.dump(2) + "\n";
}

WantedShapes wanted_shapes_from_json(std::string_view text, std::string_view file) {
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) throw DataError("{}: it is no JSON", file);
  WantedShapes shapes;
  for (const Json& entry : list_in(document, "products", file)) {
    shapes.products.push_back({op_in(entry, kProducts, file), size_in(entry, "rows", file),
                               size_in(entry, "n", file), size_in(entry, "k", file)});
  }
  for (const Json& entry : list_in(document, "attention", file)) {
    const std::int64_t heads = size_in(entry, "heads", file);
    shapes.attention.push_back({op_in(entry, kAttention, file),
                                {size_in(entry, "rows", file), size_in(entry, "batch", file), heads,
                                 heads, size_in(entry, "head_size", file)}});
  }
  return shapes;
}

}  // namespace phalanx
