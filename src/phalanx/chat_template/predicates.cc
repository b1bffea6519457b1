#include <algorithm>
#include <array>

#include "phalanx/chat_template/builtins.h"
#include "phalanx/chat_template/operations.h"

namespace phalanx::jinja {
namespace {

using Given = const Arguments&;

constexpr auto kTests = std::to_array<TestEntry>({
    {"boolean", false, [](Context&, const Value& v, Given) { return v.boolean() != nullptr; }},
    {"defined", false, [](Context&, const Value& v, Given) { return !v.is_undefined(); }},
    {"eq", true,
     [](Context& c, const Value& v, Given g) { return equal(c, v, g.positional.at(0)); }},
    {"equalto", true,
     [](Context& c, const Value& v, Given g) { return equal(c, v, g.positional.at(0)); }},
    {"false", false,
     [](Context&, const Value& v, Given) { return v.boolean() != nullptr && !*v.boolean(); }},
    {"in", true,
     [](Context& c, const Value& v, Given g) { return contains(c, g.positional.at(0), v); }},
    {"iterable", false, [](Context&, const Value& v, Given) { return is_iterable(v); }},
    {"mapping", false, [](Context&, const Value& v, Given) { return v.dict() != nullptr; }},
    {"none", false, [](Context&, const Value& v, Given) { return v.is_none(); }},
    {"number", false, [](Context&, const Value& v, Given) { return v.is_number(); }},
    // What has a length and items.
    {"sequence", false,
     [](Context&, const Value& v, Given) {
       return v.text() != nullptr || v.dict() != nullptr || v.is_undefined() ||
              (v.list() != nullptr && v.list()->has_places());
     }},
    {"string", false, [](Context&, const Value& v, Given) { return v.text() != nullptr; }},
    {"true", false,
     [](Context&, const Value& v, Given) { return v.boolean() != nullptr && *v.boolean(); }},
    {"undefined", false, [](Context&, const Value& v, Given) { return v.is_undefined(); }},
});

}  // namespace

const TestEntry* find_test(std::string_view name) {
  const auto* found = std::ranges::find(kTests, name, &TestEntry::name);
  return found == kTests.end() ? nullptr : found;
}

}  // namespace phalanx::jinja
