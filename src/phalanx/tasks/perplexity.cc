#include "phalanx/tasks/perplexity.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/tasks/detokenizers.h"
#include "phalanx/tasks/unicode_text.h"

namespace phalanx {

EvaluationText read_evaluation_text(const std::string& path, const std::string& detokenizer,
                                    const Tokenizer& tokenizer) {
  const std::string text = read_text_file(path);
  EvaluationText result;
  result.words = std::ranges::count(strip(text), ' ') + 1;
  try {
    result.tokens = tokenizer.encode(detokenize(detokenizer, text));
  } catch (const DataError& error) {
    throw DataError("{}: {}", path, error.what());
  }
  if (result.tokens.size() < 2 || result.words < 2) {
    throw DataError("{}: {} tokens, {} words between blanks: an average needs two of each", path,
                    result.tokens.size(), strip(text).empty() ? 0 : result.words);
  }
  return result;
}

std::int64_t perplexity_windows(std::int64_t targets, std::int64_t overlap) {
  return ceil_div(std::max<std::int64_t>(targets - overlap, 0), overlap) + 1;
}

Perplexity perplexity_of(double loss, const EvaluationText& text) {
  constexpr double kMost = 20.0;  // as in Megatron
  const double ratio =
      static_cast<double>(std::ssize(text.tokens) - 1) / static_cast<double>(text.words - 1);
  return {.loss = loss,
          .ppl = std::exp(std::min(kMost, loss)),
          .adjusted_ppl = std::exp(std::min(kMost, loss * ratio)),
          .token_ratio = ratio};
}

std::string result_line(const std::string& name, const Perplexity& result) {
  return fmt::format(
      " validation results on {} | avg loss: {:.4E} | ppl: {:.4E} | adjusted ppl: {:.4E} | token "
      "ratio: {} |",
      name, result.loss, result.ppl, result.adjusted_ppl, python_float(result.token_ratio));
}

std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  const bool is_whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return is_whole ? text + ".0" : text;
}

}  // namespace phalanx
