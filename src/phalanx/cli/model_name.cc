#include "phalanx/cli/model_name.h"

#include <fmt/format.h>

#include <string>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

std::string names_of_families() {
  std::string names;
  for (const auto& family : known_families()) {
    names += fmt::format("{}{}", names.empty() ? "" : "|", family->name());
  }
  return names;
}

}  // namespace

NamedFamily named_family(std::string_view command, const Arguments& arguments) {
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (!arguments.empty() && is_help(arguments[0])) return {known_families().front(), arguments};
  if (arguments.empty() || arguments[0].starts_with("-")) {
    throw UsageError("name the model first: {} {} FLAGS", command, names_of_families());
  }
  auto family = find_family(arguments[0]);
  if (family == nullptr) {
    throw UsageError("unknown model {}: {} {} FLAGS", arguments[0], command, names_of_families());
  }
  return {std::move(family), {arguments.begin() + 1, arguments.end()}};
}

void use_family_defaults(FlagSet& flags, const ModelFamily& family) {
  for (const auto& [flag, value] : family.defaults()) flags.set_default(flag, std::string(value));
}

}  // namespace phalanx
