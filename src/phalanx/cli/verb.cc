#include "phalanx/cli/verb.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

// "info, check or head".
std::string choice_of(std::span<const std::string_view> verbs) {
  if (verbs.size() == 1) return std::string(verbs.front());
  return fmt::format("{} or {}", fmt::join(verbs.first(verbs.size() - 1), ", "), verbs.back());
}

}  // namespace

std::string verb_of(std::string_view command, std::span<const std::string_view> verbs,
                    const Arguments& arguments) {
  std::string word = arguments.empty() ? "" : arguments[0];
  if (word == "--help" || word == "-h") {
    throw HelpRequested{.text = fmt::format("usage: {} {} ...\n\n{} {} --help lists its flags.\n",
                                            command, fmt::join(verbs, "|"), command, verbs.front()),
                        .command = std::string(command),
                        .verbs = {verbs.begin(), verbs.end()}};
  }
  if (std::ranges::find(verbs, word) == verbs.end()) {
    throw UsageError("say {}{}", choice_of(verbs), word.empty() ? "" : ", not " + word);
  }
  return word;
}

}  // namespace phalanx
