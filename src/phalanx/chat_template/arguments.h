#pragma once
// Arguments of a call, by position and by name.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/chat_template/value.h"

namespace phalanx::jinja {

class Context;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments in the order of these names; nothing where one is not given. Errors name `what`.
std::vector<std::optional<Value>> bound(const Context& context, std::string_view what,
                                        const Arguments& arguments,
                                        std::initializer_list<std::string_view> names,
                                        std::size_t required = 0);

}  // namespace phalanx::jinja
