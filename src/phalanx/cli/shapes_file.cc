#include "phalanx/cli/shapes_file.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargest = std::int64_t{1} << 30;

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
      std::ranges::find(names, found->get_ref<const std::string&>()) == names.end()) {
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
    shapes.products.push_back({op_in(entry, kWantedProducts, file), size_in(entry, "rows", file),
                               size_in(entry, "n", file), size_in(entry, "k", file)});
  }
  for (const Json& entry : list_in(document, "attention", file)) {
    const std::int64_t heads = size_in(entry, "heads", file);
    shapes.attention.push_back({op_in(entry, kWantedAttention, file),
                                {size_in(entry, "rows", file), size_in(entry, "batch", file), heads,
                                 heads, size_in(entry, "head_size", file)}});
  }
  return shapes;
}

}  // namespace phalanx
