#pragma once
// A template's tokens to its tree.

#include <memory>
#include <string>
#include <string_view>

#include "phalanx/chat_template/syntax.h"

namespace phalanx::jinja {

// DataError for what is no Jinja; ConfigError, with name and line, for statements, filters, tests,
// methods, functions and names that this program does not have, and for what is nested more than
// 100 deep.
std::shared_ptr<const Program> parse_template(std::string_view source, std::string name);

}  // namespace phalanx::jinja
