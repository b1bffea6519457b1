#include "phalanx/clock/measured_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// Distances in doublings, squared.
constexpr double kSame = 0.01;    // of a shape that was measured
constexpr double kFormula = 4.0;  // of the formula
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

double weight_of(double squared_distance) { return 1.0 / (squared_distance * squared_distance); }

double doublings(std::int64_t from, std::int64_t to) {
  return std::log2(static_cast<double>(to) / static_cast<double>(from));
}

double squared_distance(const MatrixProduct& from, const MatrixProduct& to) {
  double squares = 0.0;
  for (const double distance : {doublings(from.m, to.m), doublings(from.n, to.n),
                                doublings(from.k, to.k), doublings(from.batch, to.batch)}) {
    squares += distance * distance;
  }
  return squares;
}

// The mean of logarithms, by their weights.
class LogMean {
 public:
  void add(double value, double squared_distance) {
    const double weight = weight_of(squared_distance);
    sum_ += weight * std::log(value);
    weights_ += weight;
  }
  double value() const { return std::exp(sum_ / weights_); }

 private:
  double sum_ = 0.0;
  double weights_ = 0.0;
};

std::optional<ProductType> type_from(std::string_view name) {
  for (const ProductType type : kProductTypes) {
    if (name_of(type) == name) return type;
  }
  return {};
}

// "8192x768" into two numbers; false if it is something else.
bool read_sizes(std::string_view text, std::span<std::int64_t> sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), sizes[i]);
    if (fault != std::errc() || sizes[i] < 1 || sizes[i] > kLargest) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const bool is_last = i + 1 == sizes.size();
    if (is_last) return text.empty();
    if (!text.starts_with('x')) return false;
    text.remove_prefix(1);
  }
  return false;
}

// What stands before the first underscore, and what behind it.
std::pair<std::string_view, std::string_view> cut(std::string_view text) {
  const std::size_t at = text.find('_');
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

std::string_view direction(bool is_backward) { return is_backward ? "backward" : "forward"; }

}  // namespace

std::string_view name_of(ProductType type) {
  constexpr std::array<std::string_view, kProductTypes.size()> kNames = {"f32", "tf32", "f16",
                                                                         "bf16", "fp8"};
  return kNames.at(static_cast<std::size_t>(type));
}

std::int64_t size_of(ProductType type) {
  constexpr std::array<std::int64_t, kProductTypes.size()> kSizes = {4, 4, 2, 2, 1};
  return kSizes.at(static_cast<std::size_t>(type));
}

ProductType product_type(DType dtype) {
  PHALANX_CHECK(is_floating(dtype), "no products of {}", name_of(dtype));
  if (dtype == DType::kBF16) return ProductType::kBF16;
  if (dtype == DType::kF16) return ProductType::kF16;
  return ProductType::kF32;
}

double MatrixProduct::flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
         static_cast<double>(batch);
}

double MatrixProduct::bytes() const {
  const auto operand = static_cast<double>(size_of(type));
  const double result = type == ProductType::kFP8 ? 2.0 : operand;
  const auto read = static_cast<double>(m * k + k * n);
  return static_cast<double>(batch) * (read * operand + static_cast<double>(m * n) * result);
}

double doublings_to_measured(const std::vector<MeasuredProduct>& measured,
                             const MatrixProduct& product) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [of, factor] : measured) {
    if (of.type == product.type) least = std::min(least, squared_distance(of, product));
  }
  return std::sqrt(least);
}

double product_factor(const std::vector<MeasuredProduct>& measured, const MatrixProduct& product) {
  if (measured.empty()) return 1.0;
  LogMean mean;
  mean.add(1.0, kFormula);
  for (const auto& [of, factor] : measured) {
    if (of.type == product.type) mean.add(factor.value, kSame + squared_distance(of, product));
  }
  return mean.value();
}

double attention_share(const std::vector<MeasuredAttention>& measured, const AttentionPass& pass,
                       double otherwise) {
  if (measured.empty() || pass.head_size <= 0 || pass.keys <= 0) return otherwise;
  LogMean mean;
  mean.add(otherwise, kFormula);
  for (const auto& [of, share] : measured) {
    if (of.type != pass.type || of.is_backward != pass.is_backward) continue;
    const double heads = doublings(of.head_size, pass.head_size);
    const double keys = doublings(of.keys, pass.keys);
    mean.add(share.value, kSame + heads * heads + keys * keys);
  }
  return mean.value();
}

std::map<std::string, Quantity> named(const std::vector<MeasuredProduct>& measured) {
  std::map<std::string, Quantity> quantities;
  for (const auto& [product, factor] : measured) {
    quantities[fmt::format("{}_{}x{}x{}", name_of(product.type), product.m, product.n, product.k)] =
        factor;
  }
  return quantities;
}

std::map<std::string, Quantity> named(const std::vector<MeasuredAttention>& measured) {
  std::map<std::string, Quantity> quantities;
  for (const auto& [pass, share] : measured) {
    quantities[fmt::format("{}_{}_{}x{}", direction(pass.is_backward), name_of(pass.type),
                           pass.head_size, pass.keys)] = share;
  }
  return quantities;
}

void set_named(const std::map<std::string, Quantity>& quantities, std::string_view file,
               std::vector<MeasuredProduct>& measured) {
  measured.clear();
  for (const auto& [name, factor] : quantities) {
    const auto [type_name, size] = cut(name);
    const auto type = type_from(type_name);
    std::array<std::int64_t, 3> sizes = {};
    if (!type || !read_sizes(size, sizes)) {
      throw DataError(
          "{}: product_factor_{}: must be product_factor_TYPE_MxNxK, such as "
          "product_factor_bf16_8192x768x3072",
          file, name);
    }
    measured.push_back({{sizes[0], sizes[1], sizes[2], 1, *type}, factor});
  }
}

void set_named(const std::map<std::string, Quantity>& quantities, std::string_view file,
               std::vector<MeasuredAttention>& measured) {
  measured.clear();
  for (const auto& [name, share] : quantities) {
    const auto [which, rest] = cut(name);
    const auto [type_name, size] = cut(rest);
    const auto type = type_from(type_name);
    std::array<std::int64_t, 2> sizes = {};
    const bool is_backward = which == direction(true);
    if (!type || (!is_backward && which != direction(false)) || !read_sizes(size, sizes)) {
      throw DataError(
          "{}: attention_share_{}: must be attention_share_forward_TYPE_DxKEYS or "
          "attention_share_backward_TYPE_DxKEYS, such as "
          "attention_share_forward_bf16_64x1024",
          file, name);
    }
    measured.push_back({{*type, is_backward, sizes[0], sizes[1]}, share});
  }
}

}  // namespace phalanx
