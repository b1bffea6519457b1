#include "phalanx/checkpoint/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace phalanx {
namespace {

std::vector<std::int64_t> unravel(std::int64_t position, const Shape& shape) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    index[static_cast<std::size_t>(dim)] = position % shape[dim];
    position /= shape[dim];
  }
  return index;
}

// Adds a piece of both tensors, from element `begin` on.
void compare_values(TensorDifference& difference, std::int64_t begin, std::span<const std::byte> a,
                    std::span<const std::byte> b) {
  const DType dtype = difference.dtype_a;
  const auto size = static_cast<std::size_t>(size_of(dtype));
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  for (std::size_t at = 0; at < a.size(); at += size) {
    if (std::memcmp(a.data() + at, b.data() + at, size) == 0) continue;
    const double value_a = element_as_double(dtype, a.data() + at);
    const double value_b = element_as_double(dtype, b.data() + at);
    if (difference.count++ == 0) {
      difference.first_index =
          unravel(begin + static_cast<std::int64_t>(at / size), difference.shape_a);
      difference.value_a = value_a;
      difference.value_b = value_b;
    }
    const double distance = std::abs(value_a - value_b);
    if (distance > difference.max_absolute_difference) {
      difference.max_absolute_difference = distance;
    }
  }
}

void compare_tensors(TensorDifference& difference, const CheckpointReader& a,
                     const Manifest::Entry& entry_a, const CheckpointReader& b,
                     const Manifest::Entry& entry_b) {
  const std::int64_t size = size_of(entry_a.dtype);
  std::vector<std::byte> bytes_a, bytes_b;
  std::int64_t done = 0;
  for_pieces(whole_box(entry_a.shape), kReadBytes / size, [&](const MatrixBox& piece) {
    bytes_a.resize(static_cast<std::size_t>(piece.count() * size));
    bytes_b.resize(bytes_a.size());
    a.read_box(entry_a, piece, bytes_a);
    b.read_box(entry_b, piece, bytes_b);
    compare_values(difference, done, bytes_a, bytes_b);
    done += piece.count();
  });
}

nlohmann::json shape_json(const Shape& shape) {
  return std::vector<std::int64_t>(shape.begin(), shape.end());
}

}  // namespace

CheckpointDifference diff_checkpoints(const CheckpointReader& a, const CheckpointReader& b) {
  CheckpointDifference result;
  result.iteration_a = a.manifest().iteration;
  result.iteration_b = b.manifest().iteration;
  for (const auto& entry : b.manifest().tensors) {
    if (a.find(entry.name) == nullptr) result.only_in_b.push_back(entry.name);
  }
  for (const auto& entry : a.manifest().tensors) {
    const auto* other = b.find(entry.name);
    if (other == nullptr) {
      result.only_in_a.push_back(entry.name);
      continue;
    }
    TensorDifference difference{.name = entry.name,
                                .dtype_a = entry.dtype,
                                .dtype_b = other->dtype,
                                .shape_a = entry.shape,
                                .shape_b = other->shape,
                                .first_index = {}};
    difference.comparable = entry.dtype == other->dtype && entry.shape == other->shape;
    if (difference.comparable) compare_tensors(difference, a, entry, b, *other);
    if (!difference.comparable || difference.count > 0) {
      result.tensors.push_back(std::move(difference));
    }
  }
  return result;
}

std::string to_json(const CheckpointDifference& difference) {
  nlohmann::ordered_json json;
  json["equal"] = difference.tensors_equal();
  json["iterations"] = {difference.iteration_a, difference.iteration_b};
  json["only_in_first"] = difference.only_in_a;
  json["only_in_second"] = difference.only_in_b;
  json["differing"] = nlohmann::ordered_json::array();
  for (const auto& tensor : difference.tensors) {
    nlohmann::ordered_json item;
    item["name"] = tensor.name;
    item["dtypes"] = {name_of(tensor.dtype_a), name_of(tensor.dtype_b)};
    item["shapes"] = {shape_json(tensor.shape_a), shape_json(tensor.shape_b)};
    if (tensor.comparable) {
      item["first_index"] = tensor.first_index;
      item["values"] = {tensor.value_a, tensor.value_b};
      item["count"] = tensor.count;
      item["max_absolute_difference"] = tensor.max_absolute_difference;
    }
    json["differing"].push_back(std::move(item));
  }
  return json.dump(2) + "\n";
}

std::string to_text(const CheckpointDifference& difference) {
  std::string text;
  if (difference.iteration_a != difference.iteration_b) {
    text += fmt::format("iterations {} and {}\n", difference.iteration_a, difference.iteration_b);
  }
  for (const auto& name : difference.only_in_a) {
    text += fmt::format("only in the first: {}\n", name);
  }
  for (const auto& name : difference.only_in_b) {
    text += fmt::format("only in the second: {}\n", name);
  }
  for (const auto& tensor : difference.tensors) {
    if (!tensor.comparable) {
      text += fmt::format("{}: {} {} and {} {}\n", tensor.name, name_of(tensor.dtype_a),
                          tensor.shape_a.to_string(), name_of(tensor.dtype_b),
                          tensor.shape_b.to_string());
      continue;
    }
    text += fmt::format(
        "{}: {} of {} elements differ, first [{}]: {:.9g} and {:.9g}; largest difference {:.9g}\n",
        tensor.name, tensor.count, tensor.shape_a.count(), fmt::join(tensor.first_index, ", "),
        tensor.value_a, tensor.value_b, tensor.max_absolute_difference);
  }
  if (difference.tensors_equal()) text += "the tensors are equal\n";
  return text;
}

}  // namespace phalanx
