#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>

#include "phalanx/chat_template/operations.h"

namespace phalanx::jinja {
namespace {

[[noreturn]] void fail_operands(const Context& context, std::string_view how, const Value& left,
                                const Value& right) {
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) context.fail("{} is undefined", *side->undefined().what);
  }
  context.fail("{} is not possible with {} and {}", how, left.kind(), right.kind());
}

double real_of(const Value& value) {
  if (const double* real = value.real()) return *real;
  if (const auto* integer = value.integer()) return static_cast<double>(*integer);
  return *value.boolean() ? 1 : 0;
}

std::int64_t whole_of(const Value& value) {
  if (const auto* integer = value.integer()) return *integer;
  return *value.boolean() ? 1 : 0;
}

[[noreturn]] void fail_range(const Context& context) {
  context.refuse("a number of more than 64 bits is not supported");
}

Value repeated(Context& context, const Value& what, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (const Text* text = what.text()) {
    if (count != 0 && text->bytes.size() > Context::kMostText / count) {
      context.check_length(std::numeric_limits<std::size_t>::max());
    }
    std::string out;
    out.reserve(text->bytes.size() * count);
    for (std::size_t i = 0; i < count && !text->bytes.empty(); ++i) out += text->bytes;
    return context.text(std::move(out));
  }
  const auto& items = what.list()->items;
  if (count != 0 && items.size() > Context::kMostWork / count) {
    context.charge(Context::kMostWork + 1);
  }
  context.charge(items.size() * count * sizeof(Value));
  std::vector<Value> out;
  for (std::size_t i = 0; i < count && !items.empty(); ++i) {
    out.insert(out.end(), items.begin(), items.end());
  }
  return context.list(std::move(out), what.list()->kind);
}

bool is_sequence(const Value& value) {
  const List* list = value.list();
  return value.text() != nullptr ||
         (list != nullptr && list->has_places() && list->kind != List::Kind::kRange);
}

Value joined(Context& context, const Value& left, const Value& right) {
  if (const Text* first = left.text()) {
    const Text* second = right.text();
    if (first->is_safe || second->is_safe) {
      context.refuse(
          "+ with a text behind |safe, whose other side Jinja would escape, is not "
          "supported; use ~");
    }
    context.check_length(first->bytes.size() + second->bytes.size());
    return context.text(first->bytes + second->bytes);
  }
  std::vector<Value> items = left.list()->items;
  const auto& more = right.list()->items;
  context.charge((items.size() + more.size()) * sizeof(Value));
  items.insert(items.end(), more.begin(), more.end());
  return context.list(std::move(items), left.list()->kind);
}

std::int64_t whole_power(const Context& context, std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) fail_range(context);
  }
  return result;
}

Value of_whole_numbers(const Context& context, Operator how, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflows = false;
  switch (how) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::kDivide:
      if (b == 0) context.fail("division by 0");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case Operator::kFloorDivide:
    case Operator::kModulo: {
      if (b == 0) context.fail("division by 0");
      if (b == -1) {  // the one quotient that may be too large
        if (how == Operator::kModulo) return Value(std::int64_t{0});
        overflows = __builtin_sub_overflow(std::int64_t{0}, a, &result);
        break;
      }
      const bool is_lower = a % b != 0 && (a < 0) != (b < 0);
      const std::int64_t quotient = a / b - (is_lower ? 1 : 0);
      result = how == Operator::kModulo ? a - quotient * b : quotient;
      break;
    }
    default:
      if (b < 0) {
        if (a == 0) context.fail("division by 0");
        return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      result = whole_power(context, a, b);
  }
  if (overflows) fail_range(context);
  return Value(result);
}

Value of_reals(const Context& context, Operator how, double a, double b) {
  switch (how) {
    case Operator::kAdd:
      return Value(a + b);
    case Operator::kSubtract:
      return Value(a - b);
    case Operator::kMultiply:
      return Value(a * b);
    case Operator::kDivide:
      if (b == 0) context.fail("division by 0");
      return Value(a / b);
    case Operator::kFloorDivide:
    case Operator::kModulo: {
      if (b == 0) context.fail("division by 0");
      double rest = std::fmod(a, b);
      if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
      if (rest == 0) rest = std::copysign(0.0, b);
      if (how == Operator::kModulo) return Value(rest);
      const double quotient = (a - rest) / b;
      const double floor = std::floor(quotient);
      return Value(quotient - floor > 0.5 ? floor + 1 : floor);
    }
    default:
      if ((a < 0 && b != std::floor(b)) || (a == 0 && b < 0)) {
        context.refuse("such a power is not supported");
      }
      return Value(std::pow(a, b));
  }
}

std::string_view written(Operator how) {
  constexpr std::string_view kWritten[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kWritten[static_cast<std::size_t>(how)];
}

// Both numbers: whether they are, and how they stand to each other.
std::partial_ordering order_of_numbers(const Value& left, const Value& right) {
  if (left.real() == nullptr && right.real() == nullptr) {
    return whole_of(left) <=> whole_of(right);
  }
  const auto exact = [](const Value& value) {  // of 64 bits
    const double* real = value.real();
    return real != nullptr ? static_cast<long double>(*real)
                           : static_cast<long double>(whole_of(value));
  };
  return exact(left) <=> exact(right);
}

}  // namespace

Value arithmetic(Context& context, Operator how, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.real() != nullptr || right.real() != nullptr) {
      return of_reals(context, how, real_of(left), real_of(right));
    }
    return of_whole_numbers(context, how, whole_of(left), whole_of(right));
  }
  if (how == Operator::kAdd && is_sequence(left) && is_sequence(right) &&
      (left.text() != nullptr) == (right.text() != nullptr) &&
      (left.text() != nullptr || left.list()->kind == right.list()->kind)) {
    return joined(context, left, right);
  }
  if (how == Operator::kMultiply) {
    for (const auto& [what, times] : {std::pair(&left, &right), std::pair(&right, &left)}) {
      if (is_sequence(*what) && times->is_number() && times->real() == nullptr) {
        return repeated(context, *what, whole_of(*times));
      }
    }
  }
  if (how == Operator::kModulo && left.text() != nullptr) {
    context.refuse("% with a text is not supported");
  }
  fail_operands(context, written(how), left, right);
}

Value negative(Context& context, const Value& value) {
  if (!value.is_number()) fail_operands(context, "-", value, value);
  if (const double* real = value.real()) return Value(-*real);
  return of_whole_numbers(context, Operator::kSubtract, 0, whole_of(value));
}

bool equal(Context& context, const Value& left, const Value& right) {
  context.step();
  if (left.is_number() && right.is_number()) return std::is_eq(order_of_numbers(left, right));
  if (left.variant().index() != right.variant().index()) return false;
  if (const Text* text = left.text()) {
    const Text* other = right.text();
    if (text->bytes.size() != other->bytes.size()) return false;
    context.charge(text->bytes.size());
    return text->bytes == other->bytes;
  }
  const auto same = [&](const Value& a, const Value& b) { return equal(context, a, b); };
  if (const List* list = left.list()) {
    const List* other = right.list();
    if (list == other) return true;
    return list->has_places() && list->kind == other->kind &&
           std::ranges::equal(list->items, other->items, same);
  }
  if (const Dict* dict = left.dict()) {
    const Dict::Entries& entries = dict->entries();
    const Dict::Entries& others = right.dict()->entries();
    if (entries.size() != others.size()) return false;
    return std::ranges::all_of(entries, [&](const auto& entry) {
      return std::ranges::any_of(others, [&](const auto& candidate) {
        return same(entry.first, candidate.first) && same(entry.second, candidate.second);
      });
    });
  }
  if (left.is_none() || left.is_undefined()) return true;
  if (left.function() != nullptr) return *left.function() == *right.function();
  if (left.bound() != nullptr) context.refuse("comparing methods is not supported");
  return left.loop() == right.loop() && left.name_space() == right.name_space() &&
         left.macro() == right.macro();
}

bool less(Context& context, const Value& left, const Value& right) {
  context.step();
  if (left.is_number() && right.is_number()) return std::is_lt(order_of_numbers(left, right));
  if (left.text() != nullptr && right.text() != nullptr) {
    context.charge(std::min(left.text()->bytes.size(), right.text()->bytes.size()));
    return left.text()->bytes < right.text()->bytes;  // UTF-8 has the order of its characters
  }
  const List* list = left.list();
  const List* other = right.list();
  if (list == nullptr || other == nullptr || list->kind != other->kind || !is_sequence(left)) {
    fail_operands(context, "a comparison", left, right);
  }
  const std::size_t common = std::min(list->items.size(), other->items.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (equal(context, list->items[i], other->items[i])) continue;
    return less(context, list->items[i], other->items[i]);
  }
  return list->items.size() < other->items.size();
}

bool contains(Context& context, const Value& container, const Value& value) {
  if (const Text* text = container.text()) {
    const std::string& part = text_of(context, "what is sought in a text", value);
    context.charge(text->bytes.size());
    return text->bytes.find(part) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    context.charge(dict->size() * sizeof(Value));
    return dict->find_if([&](const Value& key) { return equal(context, key, value); }) != nullptr;
  }
  if (!is_iterable(container)) fail_operands(context, "in", value, container);
  const auto items = items_of(context, container);
  return std::ranges::any_of(items, [&](const Value& item) { return equal(context, item, value); });
}

bool compare(Context& context, Operator how, const Value& left, const Value& right) {
  switch (how) {
    case Operator::kEqual:
      return equal(context, left, right);
    case Operator::kUnequal:
      return !equal(context, left, right);
    case Operator::kLess:
      return less(context, left, right);
    case Operator::kGreater:
      return less(context, right, left);
    case Operator::kLessEqual:
      if (left.is_number() && right.is_number()) return std::is_lteq(order_of_numbers(left, right));
      return !less(context, right, left);
    case Operator::kGreaterEqual:
      if (left.is_number() && right.is_number()) return std::is_gteq(order_of_numbers(left, right));
      return !less(context, left, right);
    case Operator::kIn:
      return contains(context, right, left);
    default:
      return !contains(context, right, left);
  }
}

}  // namespace phalanx::jinja
