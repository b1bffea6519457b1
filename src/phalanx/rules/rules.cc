#include "phalanx/rules/rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "phalanx/flag_table/train_flags.h"

namespace phalanx {

void check_values(const TrainConfig& config, bool for_training, Faults& faults) {
  // The table needs variables, not constants; they are only read.
  TrainConfig values = config;
  TrainConfig plain;
  // Whether a flag that is given replaces a required one.
  const auto is_excused = [&](const FlagSpec& spec) {
    return std::ranges::any_of(words_of(spec.required_unless), [&](std::string_view name) {
      const TrainFlag* other = find_train_flag(name);
      return text_of(other->target(values)) != text_of(other->target(plain));
    });
  };
  for (const TrainFlag& flag : train_flags()) {
    if (flag.target == nullptr) continue;
    const FlagType type = type_of(flag.target(values), flag.spec.type);
    const std::string text = text_of(flag.target(values));
    const bool is_required = flag.spec.required || (flag.spec.required_to_train && for_training);
    if (text == text_of(flag.target(plain))) {
      if (is_required && !is_excused(flag.spec))
        faults.add(fmt::format("{} must be given", flag.spec.name));
      continue;
    }
    for (const std::string& word : words_of_text(type, text)) {
      const auto fault = fault_of(flag.spec, type, word);
      if (fault) faults.add(fmt::format("{} {}: {}", flag.spec.name, word, *fault));
    }
  }
}

}  // namespace phalanx
