#pragma once
// Values of a template, Python's: immutable except namespaces. A copy is cheap.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace phalanx::jinja {

struct Bound;
class Dict;
struct List;
struct Loop;
struct Macro;
struct Namespace;
struct Text;

// A name that nothing was assigned to, or an absent attribute: what it was.
struct Undefined {
  std::shared_ptr<const std::string> what;
};
struct None {};

enum class Function { kRaiseException, kNamespace, kRange, kDict, kStrftimeNow };

class Value {
 public:
  using TextPointer = std::shared_ptr<const Text>;
  using ListPointer = std::shared_ptr<const List>;
  using DictPointer = std::shared_ptr<const Dict>;
  // Namespaces and macros belong to the rendering.
  using Variant = std::variant<None, Undefined, bool, std::int64_t, double, TextPointer,
                               ListPointer, DictPointer, std::shared_ptr<const Loop>,
                               std::shared_ptr<const Bound>, Function, Namespace*, const Macro*>;

  Value() = default;
  explicit Value(bool value) : value_(value) {}
  explicit Value(std::int64_t value) : value_(value) {}
  explicit Value(double value) : value_(value) {}
  explicit Value(Function value) : value_(value) {}
  explicit Value(Undefined value) : value_(std::move(value)) {}
  explicit Value(Namespace* value) : value_(value) {}
  explicit Value(const Macro* value) : value_(value) {}
  explicit Value(std::shared_ptr<const Loop> value) : value_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Bound> value) : value_(std::move(value)) {}
  explicit Value(ListPointer value) : value_(std::move(value)) {}
  explicit Value(DictPointer value) : value_(std::move(value)) {}
  explicit Value(TextPointer value) : value_(std::move(value)) {}
  // No implicit bool from a pointer.
  template <typename T>
  Value(const T*) = delete;

  bool is_none() const { return std::holds_alternative<None>(value_); }
  bool is_undefined() const { return std::holds_alternative<Undefined>(value_); }
  const Undefined& undefined() const { return std::get<Undefined>(value_); }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&value_); }
  const double* real() const { return std::get_if<double>(&value_); }
  const Text* text() const { return pointee<TextPointer>(); }
  const List* list() const { return pointee<ListPointer>(); }
  const Dict* dict() const { return pointee<DictPointer>(); }
  const Loop* loop() const { return pointee<std::shared_ptr<const Loop>>(); }
  const Bound* bound() const { return pointee<std::shared_ptr<const Bound>>(); }
  const Function* function() const { return std::get_if<Function>(&value_); }
  Namespace* name_space() const { return pointer<Namespace*>(); }
  const Macro* macro() const { return pointer<const Macro*>(); }
  bool is_number() const {
    return boolean() != nullptr || integer() != nullptr || real() != nullptr;
  }

  // Containers in containers: 0 for what is none.
  int depth() const;
  // As messages name it: "a list".
  std::string_view kind() const;
  const Variant& variant() const { return value_; }

 private:
  template <typename Pointer>
  auto pointee() const -> decltype(std::declval<const Pointer&>().get()) {
    const auto* held = std::get_if<Pointer>(&value_);
    return held == nullptr ? nullptr : held->get();
  }
  template <typename Pointer>
  Pointer pointer() const {
    const auto* held = std::get_if<Pointer>(&value_);
    return held == nullptr ? nullptr : *held;
  }

  Variant value_;
};

struct Text {
  std::string bytes;
  bool is_safe = false;  // has passed |safe: Jinja's + would escape the other side
};

struct List {
  enum class Kind {
    kList,
    kTuple,
    kRange,
    kView,       // of a dict: has a length, no places
    kGenerator,  // is read once
  };
  Kind kind = Kind::kList;
  std::vector<Value> items;
  int depth = 1;
  mutable std::size_t taken = 0;  // of a generator

  bool has_places() const { return kind != Kind::kView && kind != Kind::kGenerator; }
};

class Dict {
 public:
  using Entries = std::vector<std::pair<Value, Value>>;

  Dict(Entries entries, int depth) : entries_(std::move(entries)), depth_(depth) {}

  int depth() const { return depth_; }
  std::size_t size() const { return entries_.size(); }
  // As they were added. All count as read.
  const Entries& entries() const;
  // The value of the first key for which `is_it` holds; it counts as read.
  template <typename Predicate>
  const Value* find_if(const Predicate& is_it) const {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!is_it(entries_[i].first)) continue;
      if (!read_.empty()) read_[i] = true;
      return &entries_[i].second;
    }
    return nullptr;
  }
  const Value* find(std::string_view key) const;

  // From here on it is kept which entries are read.
  void watch() const { read_.assign(entries_.size(), false); }
  // Calls `see` with each key that is a text, its value, and whether it was read.
  template <typename See>
  void for_each_watched(const See& see) const;

 private:
  Entries entries_;
  int depth_ = 1;
  mutable std::vector<bool> read_;  // empty: not watched
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> entries;

  const Value* find(std::string_view key) const;
  void set(std::string_view key, Value value);
};

// `loop` in a for.
struct Loop {
  std::vector<Value> items;
  std::size_t index = 0;
};

// x.strip, not called.
struct Bound {
  Value object;
  std::string name;
};

template <typename See>
void Dict::for_each_watched(const See& see) const {
  for (std::size_t i = 0; i < read_.size(); ++i) {
    const auto& [key, value] = entries_[i];
    if (const Text* text = key.text()) see(text->bytes, value, bool{read_[i]});
  }
}

Value text_value(std::string bytes);
Value undefined_value(std::string what);

bool truth(const Value& value);
// Whether Python's object has a method or attribute of this name, and the sandbox shows it.
bool has_python_attribute(const Value& value, std::string_view name);

}  // namespace phalanx::jinja
