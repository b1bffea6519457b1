#include "phalanx/tasks/cloze.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/tasks/unicode_text.h"

namespace phalanx {
namespace {

std::string text_of_line(std::string_view line, const std::string& place) {
  using Json = nlohmann::json;
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) throw DataError("{}: not JSON", place);
  const auto text = json.is_object() ? json.find("text") : json.end();
  if (text == json.end() || !text->is_string()) {
    throw DataError("{}: an object with a string \"text\" is expected", place);
  }
  return text->get<std::string>();
}

ClozeExample example_of(const std::string& text, const Tokenizer& tokenizer, bool strict,
                        const std::string& place) {
  ClozeExample example;
  if (strict) {
    const std::string_view word = last_word(text);
    if (word.empty()) throw DataError("{}: the text has no words", place);
    const std::string_view before = std::string_view(text).substr(0, text.rfind(word));
    example.context = tokenizer.encode(strip(before));
    example.target = tokenizer.encode(" " + std::string(word));
  } else {
    example.context = tokenizer.encode(text);
    if (!example.context.empty()) {
      example.target.push_back(example.context.back());
      example.context.pop_back();
    }
  }
  if (example.context.empty() || example.target.empty()) {
    throw DataError("{}: nothing is before the {} that is asked for", place,
                    strict ? "word" : "token");
  }
  return example;
}

// The logarithm of an id's probability.
double log_probability(const std::vector<float>& logits, std::int32_t id) {
  const double largest = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - largest - std::log(sum);
}

}  // namespace

std::vector<ClozeExample> read_cloze(const std::string& path, const Tokenizer& tokenizer,
                                     bool strict) {
  const std::string file = read_file(path);
  std::vector<ClozeExample> examples;
  for (std::string_view rest = file; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string place = fmt::format("{}, line {}", path, examples.size() + 1);
    const std::string text = text_of_line(rest.substr(0, end), place);
    try {
      examples.push_back(example_of(text, tokenizer, strict, place));
    } catch (const DataError& error) {
      const std::string_view message = error.what();
      if (message.starts_with(path)) throw;
      throw DataError("{}: {}", place, message);
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (examples.empty()) throw DataError("{}: the file is empty", path);
  return examples;
}

std::int64_t shorten(std::vector<ClozeExample>& examples, std::int64_t positions) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    auto& [context, target] = examples[i];
    const std::int64_t room = positions + 1 - std::ssize(target);
    if (room < 1) {
      throw DataError("passage {} asks for {} tokens; the model has {} positions", i + 1,
                      target.size(), positions);
    }
    if (std::ssize(context) <= room) continue;
    context.erase(context.begin(), context.end() - room);
    ++count;
  }
  return count;
}

ClozeResult evaluate_cloze(SequenceModel& model, const std::vector<ClozeExample>& examples,
                           const std::function<void(std::int64_t)>& on_example) {
  ClozeResult result;
  for (const auto& [context, target] : examples) {
    model.truncate(0, 0);
    bool is_right = true;
    std::span<const std::int32_t> fresh = context;
    for (const std::int32_t& id : target) {
      const std::vector<float> logits = model.read(0, fresh);
      fresh = std::span(&id, 1);
      is_right = is_right && std::ranges::max_element(logits) - logits.begin() == id;
      result.log_probability += log_probability(logits, id);
    }
    if (!std::isfinite(result.log_probability)) {
      throw DataError("the probability of passage {} is not a number: the weights are not sound",
                      result.examples + 1);
    }
    result.correct += is_right ? 1 : 0;
    on_example(++result.examples);
  }
  return result;
}

std::string result_line(const std::string& name, const ClozeResult& result) {
  const auto correct = static_cast<double>(result.correct);
  const auto examples = static_cast<double>(result.examples);
  return fmt::format(
      " validation results on {} | number correct: {:.4E} | total examples: {:.4E} | avg accuracy: "
      "{:.4E}",
      name, correct, examples, correct / examples);
}

}  // namespace phalanx
