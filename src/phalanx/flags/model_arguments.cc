#include "phalanx/flags/model_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

template <typename T>
T value_of(std::string_view flag, std::string_view text, std::string_view kind) {
  const auto value = parse_number<T>(text);
  if (!value) throw DataError("the checkpoint's {} is no {}: {}", flag, kind, text);
  return *value;
}

}  // namespace

std::string joined_words(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, "\t"));
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\t'), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

void ModelArguments::set(std::string_view flag, std::string text) {
  arguments_[std::string(flag)] = std::move(text);
}

void ModelArguments::set(std::string_view flag, std::int64_t value) {
  set(flag, std::to_string(value));
}

void ModelArguments::set(std::string_view flag, double value) {
  set(flag, fmt::format("{}", value));
}

void ModelArguments::set(std::string_view flag, const std::vector<std::int64_t>& ids) {
  set(flag, fmt::format("{}", fmt::join(ids, " ")));
}

std::string ModelArguments::text(std::string_view flag, std::string_view otherwise) const {
  const auto found = arguments_.find(std::string(flag));
  return found == arguments_.end() ? std::string(otherwise) : found->second;
}

std::int64_t ModelArguments::integer(std::string_view flag, std::int64_t otherwise) const {
  return has(flag) ? value_of<std::int64_t>(flag, text(flag), "integer") : otherwise;
}

double ModelArguments::number(std::string_view flag, double otherwise) const {
  return has(flag) ? value_of<double>(flag, text(flag), "number") : otherwise;
}

bool ModelArguments::is_on(std::string_view flag) const { return text(flag) == "true"; }

std::vector<std::int64_t> ModelArguments::ids(std::string_view flag) const {
  std::vector<std::int64_t> ids;
  const std::string words = text(flag);
  std::string_view rest = words;
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.empty()) return ids;
    const std::size_t end = std::min(rest.find(' '), rest.size());
    ids.push_back(value_of<std::int64_t>(flag, rest.substr(0, end), "list of ids"));
    rest.remove_prefix(end);
  }
}

std::int64_t ModelArguments::groups() const {
  return is_on("--group-query-attention") ? integer("--num-query-groups") : heads();
}

std::int64_t ModelArguments::head_size() const {
  const std::int64_t given = integer("--kv-channels");
  return given > 0 ? given : hidden() / heads();
}

}  // namespace phalanx
