#include "phalanx/cli/model_name.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {

Arguments behind_model_name(std::string_view command, const Arguments& arguments) {
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (!arguments.empty() && is_help(arguments[0])) return arguments;
  if (arguments.empty() || arguments[0].starts_with("-")) {
    throw UsageError("name the model first: {} gpt FLAGS", command);
  }
  if (arguments[0] == "bert" || arguments[0] == "t5") {
    throw UsageError("{} is not available in this version of Phalanx; gpt is", arguments[0]);
  }
  if (arguments[0] != "gpt") {
    throw UsageError("unknown model {}; gpt is the one there is", arguments[0]);
  }
  return {arguments.begin() + 1, arguments.end()};
}

}  // namespace phalanx
