#include "phalanx/tasks/bag_of_words.h"

#include <algorithm>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/data/torch_random.h"

namespace phalanx {
namespace {

constexpr double kRate = 0.1;
constexpr double kDecay = 1e-4;

}  // namespace

BagOfWords::BagOfWords(const std::vector<WordBag>& bags, std::int64_t vocabulary,
                       std::int64_t classes, std::uint64_t seed, int epochs)
    : classes_(classes),
      weights_(static_cast<std::size_t>((vocabulary + 1) * classes)),
      squares_(weights_.size(), 1.0) {
  PHALANX_CHECK(classes > 1 && vocabulary > 0, "{} classes, {} words", classes, vocabulary);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto order =
        torch_permutation(std::ssize(bags), seed + static_cast<std::uint64_t>(epoch));
    for (const std::uint32_t i : order) learn(bags[i]);
  }
}

std::vector<double> BagOfWords::scores(const WordBag& bag) const {
  const auto classes = static_cast<std::size_t>(classes_);
  std::vector<double> result(weights_.end() - classes_, weights_.end());
  for (const std::int32_t token : bag.tokens) {
    const double* const row = weights_.data() + static_cast<std::size_t>(token) * classes;
    for (std::size_t c = 0; c < classes; ++c) result[c] += row[c];
  }
  return result;
}

void BagOfWords::learn(const WordBag& bag) {
  // The gradient of the cross entropy by the scores: softmax - one-hot.
  std::vector<double> gradient = scores(bag);
  const double largest = *std::ranges::max_element(gradient);
  double sum = 0.0;
  for (double& value : gradient) sum += value = std::exp(value - largest);
  for (double& value : gradient) value /= sum;
  gradient[static_cast<std::size_t>(bag.label)] -= 1.0;
  const auto classes = static_cast<std::size_t>(classes_);
  const auto update = [&](std::size_t row) {
    for (std::size_t c = 0; c < classes; ++c) {
      double& weight = weights_[row * classes + c];
      double& square = squares_[row * classes + c];
      const double g = gradient[c] + kDecay * weight;
      square += g * g;
      weight -= kRate * g / std::sqrt(square);
    }
  };
  for (const std::int32_t token : bag.tokens) update(static_cast<std::size_t>(token));
  update(weights_.size() / classes - 1);
}

std::int32_t BagOfWords::predict(const WordBag& bag) const {
  const auto found = scores(bag);
  return static_cast<std::int32_t>(std::ranges::max_element(found) - found.begin());
}

std::int64_t BagOfWords::correct(const std::vector<WordBag>& bags) const {
  return std::ranges::count_if(bags,
                               [this](const WordBag& bag) { return predict(bag) == bag.label; });
}

}  // namespace phalanx
