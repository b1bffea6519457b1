#include "phalanx/cli/verb.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

// "info, check or head".
std::string choice_of(std::span<const Verb> verbs) {
  std::vector<std::string_view> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  if (names.size() == 1) return std::string(names.front());
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

}  // namespace

std::string verb_of(std::string_view command, std::span<const Verb> verbs,
                    const Arguments& arguments) {
  std::string word = arguments.empty() ? "" : arguments[0];
  if (word == "--help" || word == "-h") {
    HelpRequested help{.text = fmt::format("usage: {} VERB ...\n\n", command),
                       .command = std::string(command)};
    std::size_t width = 10;
    for (const Verb& verb : verbs) width = std::max(width, verb.name.size() + 1);
    for (const Verb& verb : verbs) {
      help.text += fmt::format("  {:<{}} {}\n", verb.name, width, verb.help);
      help.verbs.emplace_back(verb.name);
    }
    help.text += fmt::format("\n{} VERB --help lists the flags of one.\n", command);
    throw help;
  }
  if (std::ranges::find(verbs, word, &Verb::name) == verbs.end()) {
    throw UsageError("say {}{}", choice_of(verbs), word.empty() ? "" : ", not " + word);
  }
  return word;
}

}  // namespace phalanx
