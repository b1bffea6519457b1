#include "phalanx/chat_template/arguments.h"

#include <algorithm>

#include "phalanx/chat_template/context.h"

namespace phalanx::jinja {

std::vector<std::optional<Value>> bound(const Context& context, std::string_view what,
                                        const Arguments& arguments,
                                        std::initializer_list<std::string_view> names,
                                        std::size_t required) {
  std::vector<std::optional<Value>> values(names.size());
  if (arguments.positional.size() > names.size()) {
    context.fail("{} takes at most {} arguments, and is given {}", what, names.size(),
                 arguments.positional.size());
  }
  std::ranges::copy(arguments.positional, values.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(names, std::string_view(name));
    if (found == names.end()) context.refuse("{} takes no argument '{}' here", what, name);
    auto& slot = values[static_cast<std::size_t>(found - names.begin())];
    if (slot) context.fail("{} is given the argument '{}' twice", what, name);
    slot = value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!values[i]) context.fail("{} needs the argument '{}'", what, names.begin()[i]);
  }
  return values;
}

}  // namespace phalanx::jinja
