#pragma once
// Weights as formulas for tests of models that others published: the tensors of a Hugging Face
// model are numbered in its own order, and an element is a function of that number and its place.
// So a program in another language has the same model with no file between them.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace phalanx {

// Element i (row-major) of tensor k: base + scale * u in double, rounded to float; u in [-1, 1).
struct PublishedTensor {
  std::uint32_t number = 0;
  double base = 0.0;
  double scale = 0.0;

  double operator[](std::int64_t i) const {
    std::uint32_t x = 65536 * number + static_cast<std::uint32_t>(i) + 1;
    x = (x ^ (x >> 16)) * 0x7FEB352DU;
    x = (x ^ (x >> 15)) * 0x846CA68BU;
    x ^= x >> 16;
    return static_cast<float>(base + scale * (2.0 * x / 0x1p32 - 1.0));
  }
};

// By Phalanx's names; tensors take their numbers in the order of the calls.
class PublishedWeights {
 public:
  void embedding(const std::string& name) { plain(name, take(0.0, 1.0)); }
  void matrix(const std::string& name) { plain(name, take(0.0, 0.5)); }
  void vector(const std::string& name) { plain(name, take(0.0, 0.1)); }
  void norm(const std::string& name) { plain(name, take(1.0, 0.1)); }
  // NAME.weight and NAME.bias.
  void linear(const std::string& name) {
    matrix(name + ".weight");
    vector(name + ".bias");
  }
  void layer_norm(const std::string& name) {
    norm(name + ".weight");
    vector(name + ".bias");
  }
  // Matrices [heads * rows, columns] of one shape, each followed by its bias or none, as one whose
  // rows are grouped by head: [heads, parts, rows].
  void by_head(const std::string& name, std::size_t parts, std::int64_t rows, std::int64_t columns,
               bool bias) {
    std::vector<PublishedTensor> weights, biases;
    for (std::size_t part = 0; part < parts; ++part) {
      weights.push_back(take(0.0, 0.5));
      if (bias) biases.push_back(take(0.0, 0.1));
    }
    elements_[name + ".weight"] = grouped(weights, rows, columns);
    if (bias) elements_[name + ".bias"] = grouped(biases, rows, 1);
  }
  // Matrices of `rows` rows, one under the other.
  void stacked(const std::string& name, std::size_t parts, std::int64_t elements) {
    std::vector<PublishedTensor> weights;
    for (std::size_t part = 0; part < parts; ++part) weights.push_back(take(0.0, 0.5));
    elements_[name] = [=](std::int64_t i) {
      return weights[static_cast<std::size_t>(i / elements)][i % elements];
    };
  }

  double at(const std::string& name, std::int64_t index) const { return elements_.at(name)(index); }

 private:
  using Elements = std::function<double(std::int64_t)>;

  PublishedTensor take(double base, double scale) {
    return {.number = next_++, .base = base, .scale = scale};
  }
  void plain(const std::string& name, PublishedTensor tensor) {
    elements_[name] = [tensor](std::int64_t i) { return tensor[i]; };
  }
  static Elements grouped(const std::vector<PublishedTensor>& parts, std::int64_t rows,
                          std::int64_t columns) {
    return [=](std::int64_t i) {
      const std::int64_t row = i / columns;
      const auto count = static_cast<std::int64_t>(parts.size());
      const std::int64_t head = row / (count * rows);
      const auto part = static_cast<std::size_t>(row / rows % count);
      return parts[part][(head * rows + row % rows) * columns + i % columns];
    };
  }

  std::map<std::string, Elements> elements_;
  std::uint32_t next_ = 0;
};

}  // namespace phalanx
