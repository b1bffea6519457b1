#include "bench_data_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <random>

namespace phalanx::bench {
namespace {

constexpr std::size_t kWords = 30000;

class TextGenerator {
 public:
  explicit TextGenerator(std::uint64_t seed) : random_(seed) {
    constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkjqxz";
    std::mt19937_64 letters(7);  // the words are the same for every seed
    for (std::size_t i = 0; i < kWords; ++i) {
      std::string word;
      const std::size_t length =
          2 + static_cast<std::size_t>(std::log2(static_cast<double>(i + 1)) / 2) + letters() % 4;
      while (word.size() < length) {
        word += kLetters[std::min(letters() % kLetters.size(), letters() % kLetters.size())];
      }
      words_.push_back(word);
    }
  }

  void add_sentence(std::string& text) {
    const std::size_t words = 4 + random_() % 20;
    const std::size_t begin = text.size();
    for (std::size_t i = 0; i < words; ++i) {
      if (i > 0) text += random_() % 12 == 0 ? ", " : " ";
      if (random_() % 40 == 0) {
        fmt::format_to(std::back_inserter(text), "{}", random_() % 3000);
      } else {
        text += word();
      }
      if (random_() % 60 == 0) text += "'s";
    }
    if (text[begin] >= 'a') text[begin] = static_cast<char>(text[begin] - 'a' + 'A');
    text += random_() % 10 == 0 ? "? " : ". ";
  }
  std::size_t sentences() { return 1 + random_() % 8; }

 private:
  // Ranks r with probability 1 / r.
  const std::string& word() {
    const double share = static_cast<double>(random_() >> 11) * 0x1p-53;
    const double rank = std::exp(share * std::log(static_cast<double>(kWords)));
    return words_[static_cast<std::size_t>(rank) % kWords];
  }

  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

}  // namespace

std::string generated_text(std::int64_t bytes, std::uint64_t seed) {
  TextGenerator generator(seed);
  std::string text;
  text.reserve(static_cast<std::size_t>(bytes) + 4096);
  while (std::ssize(text) < bytes) {
    for (std::size_t i = generator.sentences(); i > 0; --i) generator.add_sentence(text);
    text.back() = '\n';
  }
  return text;
}

std::vector<std::string_view> documents_of(std::string_view text, std::int64_t bytes) {
  std::vector<std::string_view> documents;
  std::size_t begin = 0;
  for (std::size_t line = 0; line < text.size();) {
    const std::size_t end = std::min(text.find('\n', line), text.size());
    line = end + 1;
    if (static_cast<std::int64_t>(line - begin) < bytes && line < text.size()) continue;
    documents.push_back(text.substr(begin, end - begin));
    begin = line;
  }
  return documents;
}

}  // namespace phalanx::bench
