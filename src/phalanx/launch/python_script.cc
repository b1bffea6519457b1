#include "phalanx/launch/python_script.h"

namespace phalanx::launch {

std::optional<std::string> command_of_script(std::string_view word) {
  const std::string_view name = word.substr(word.rfind('/') + 1);
  if (!name.ends_with(".py") && !name.starts_with("python")) return std::nullopt;
  if (name.starts_with("preprocess_data")) return "preprocess-data";
  for (const std::string_view family : {"bert", "t5"}) {
    if (name.find(family) != std::string_view::npos) return "pretrain " + std::string(family);
  }
  return "pretrain gpt";
}

}  // namespace phalanx::launch
