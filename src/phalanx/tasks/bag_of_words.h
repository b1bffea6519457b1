#pragma once
// What can be told from which words there are, whatever their order: logistic regression on the
// counts of a text's tokens. The baseline beside which a classifier's accuracy says something.

#include <cstdint>
#include <vector>

namespace phalanx {

// A text as the tokens of both its parts together, sorted: equal bags have equal scores, to the
// bit.
struct WordBag {
  std::vector<std::int32_t> tokens;
  std::int32_t label = 0;
};

class BagOfWords {
 public:
  // Trains on the bags, in orders that depend on `seed` alone: Adagrad, `epochs` times, with a mild
  // pull of all weights towards zero.
  BagOfWords(const std::vector<WordBag>& bags, std::int64_t vocabulary, std::int64_t classes,
             std::uint64_t seed, int epochs = 5);

  std::int32_t predict(const WordBag& bag) const;
  std::int64_t correct(const std::vector<WordBag>& bags) const;

 private:
  std::vector<double> scores(const WordBag& bag) const;
  void learn(const WordBag& bag);

  std::int64_t classes_;
  std::vector<double> weights_;  // [vocabulary + 1, classes]; the last row is the bias
  std::vector<double> squares_;  // of gradients so far, likewise
};

}  // namespace phalanx
