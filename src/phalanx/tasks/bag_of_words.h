#pragma once
// Logistic regression on the counts of a text's tokens, whatever their order: a baseline for a
// classifier's accuracy.

#include <cstdint>
#include <vector>

namespace phalanx {

// The sorted tokens of both parts of a text: equal bags have the same scores, to the bit.
struct WordBag {
  std::vector<std::int32_t> tokens;
  std::int32_t label = 0;
};

class BagOfWords {
 public:
  // Trains on the bags `epochs` times with Adagrad and a small weight decay, in orders that depend
  // only on `seed`.
  BagOfWords(const std::vector<WordBag>& bags, std::int64_t vocabulary, std::int64_t classes,
             std::uint64_t seed, int epochs = 5);

  std::int32_t predict(const WordBag& bag) const;
  std::int64_t correct(const std::vector<WordBag>& bags) const;

 private:
  std::vector<double> scores(const WordBag& bag) const;
  void learn(const WordBag& bag);

  std::int64_t classes_;
  std::vector<double> weights_;  // [vocabulary + 1, classes]; the last row is the bias
  std::vector<double> squares_;  // sums of squared gradients, in the same order
};

}  // namespace phalanx
