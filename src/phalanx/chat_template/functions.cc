#include <fmt/format.h>

#include <array>
#include <chrono>

#include "phalanx/chat_template/builtins.h"
#include "phalanx/chat_template/chat_template.h"
#include "phalanx/chat_template/context.h"
#include "phalanx/chat_template/operations.h"

namespace phalanx::jinja {
namespace {

constexpr std::int64_t kLongestRange = 100'000;  // Jinja's sandbox has this limit

// What dict(...) is made of: a dict or pairs, and names.
std::vector<std::pair<Value, Value>> entries_of(Context& context, std::string_view what,
                                                const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) context.fail("{} takes one dict", what);
  for (const Value& from : arguments.positional) {
    if (const Dict* dict = from.dict()) {
      context.charge(dict->size() * sizeof(Value));
      entries = dict->entries();
      continue;
    }
    for (const Value& pair : items_of(context, from)) {
      const auto parts = items_of(context, pair);
      if (parts.size() != 2) context.fail("{} of what are no pairs", what);
      context.set(entries, parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) {
    context.set(entries, context.text(name), value);
  }
  return entries;
}

Value name_space(Context& context, const Arguments& arguments) {
  Namespace* made = context.make_namespace();
  for (auto& [key, value] : entries_of(context, "namespace", arguments)) {
    made->set(text_of(context, "a name in a namespace", key), std::move(value));
  }
  return Value(made);
}

Value range(Context& context, const Arguments& arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) {
    context.fail("range takes one to three numbers");
  }
  const auto number = [&](std::size_t i) { return integer_of(context, "range", given[i]); };
  const std::int64_t first = given.size() > 1 ? number(0) : 0;
  const std::int64_t last = given.size() > 1 ? number(1) : number(0);
  const std::int64_t step = given.size() > 2 ? number(2) : 1;
  if (step == 0) context.fail("the step of a range is 0");
  std::vector<Value> items;
  for (std::int64_t i = first; step < 0 ? i > last : i < last;) {
    if (std::ssize(items) == kLongestRange) {
      context.fail("a range of more than {} numbers", kLongestRange);
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return context.list(std::move(items), List::Kind::kRange);
}

// As strftime writes a day in the C locale.
std::string written_date(const Context& context, std::string_view format,
                         std::chrono::year_month_day date) {
  constexpr std::array kMonths = {"January",   "February", "March",    "April",
                                  "May",       "June",     "July",     "August",
                                  "September", "October",  "November", "December"};
  constexpr std::array kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                "Thursday", "Friday", "Saturday"};
  const int year = static_cast<int>(date.year());
  const auto month = static_cast<unsigned>(date.month());
  const auto day = static_cast<unsigned>(date.day());
  const std::chrono::weekday weekday{std::chrono::sys_days(date)};
  const std::string_view month_name = kMonths.at(month - 1);
  const std::string_view day_name = kDays.at(weekday.c_encoding());
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    switch (const char letter = ++i < format.size() ? format[i] : ' '; letter) {
      case 'Y':
        out += fmt::format("{}", year);
        break;
      case 'y':
        out += fmt::format("{:02}", year % 100);
        break;
      case 'm':
        out += fmt::format("{:02}", month);
        break;
      case 'd':
        out += fmt::format("{:02}", day);
        break;
      case 'B':
        out += month_name;
        break;
      case 'b':
        out += month_name.substr(0, 3);
        break;
      case 'A':
        out += day_name;
        break;
      case 'a':
        out += day_name.substr(0, 3);
        break;
      case '%':
        out += '%';
        break;
      default:
        context.refuse("strftime_now with %{} is not supported: the date has day, month and year",
                       letter);
    }
  }
  return out;
}

Value strftime_now(Context& context, const Arguments& arguments) {
  const auto given = bound(context, "strftime_now", arguments, {"format"}, 1);
  if (!context.date()) {
    context.refuse(
        "the template asks for today's date, which would make every day another text; "
        "--chat-template-date YYYY-MM-DD sets one");
  }
  return context.text(
      written_date(context, text_of(context, "the format of a date", *given[0]), *context.date()));
}

}  // namespace

Value find_function(std::string_view name) {
  if (name == "raise_exception") return Value(Function::kRaiseException);
  if (name == "namespace") return Value(Function::kNamespace);
  if (name == "range") return Value(Function::kRange);
  if (name == "dict") return Value(Function::kDict);
  if (name == "strftime_now") return Value(Function::kStrftimeNow);
  return {};
}

Value call_function(Context& context, Function function, const Arguments& arguments) {
  switch (function) {
    case Function::kRaiseException: {
      const auto given = bound(context, "raise_exception", arguments, {"message"}, 1);
      throw TemplateRaised(context.place().name(), context.line(), printed(context, *given[0]));
    }
    case Function::kNamespace:
      return name_space(context, arguments);
    case Function::kRange:
      return range(context, arguments);
    case Function::kDict:
      return context.dict(entries_of(context, "dict", arguments));
    case Function::kStrftimeNow:
      break;
  }
  return strftime_now(context, arguments);
}

}  // namespace phalanx::jinja
