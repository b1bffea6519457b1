// json_texts(): collects the strings of the wanted keys while the parser runs. No other value is
// kept.

#include "phalanx/corpus/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;
using Texts = std::vector<std::string>;

// Each callback returns whether the parser goes on.
class TextsReader final : public nlohmann::json_sax<Json> {
 public:
  explicit TextsReader(const std::vector<std::string>& keys) : keys_(keys), found_(keys.size()) {}

  // What is wrong with the line; nothing if it is well-formed.
  std::optional<std::string> take(std::vector<Texts>& texts) {
    if (!problem_.empty()) return problem_;
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      Found& found = found_[k];
      if (found.state == State::kMissing) {
        return fmt::format("the object has no key \"{}\" (--json-keys)", keys_[k]);
      }
      if (found.state == State::kWrong) {
        return fmt::format("\"{}\" is {}, not a string or a list of strings", keys_[k], found.type);
      }
      if (found.state == State::kWrongElement) {
        return fmt::format("the list \"{}\" holds {}, not only strings", keys_[k], found.type);
      }
      texts[k] = std::move(found.texts);
    }
    return std::nullopt;
  }

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("boolean"); }
  bool number_integer(number_integer_t) override { return other("number"); }
  bool number_unsigned(number_unsigned_t) override { return other("number"); }
  bool number_float(number_float_t, const string_t&) override { return other("number"); }
  bool binary(binary_t&) override { return other("binary"); }

  bool string(string_t& value) override {
    if (depth_ == 0) return no_object("string");
    if (wanted_ == nullptr) return true;
    const bool is_value = depth_ == 1;
    if (!is_value && (depth_ != 2 || wanted_->state != State::kFound)) return true;
    if (is_value) wanted_->state = State::kFound;
    wanted_->texts.push_back(std::move(value));
    return true;
  }

  // The last of several values of a key counts.
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    const auto place = std::find(keys_.begin(), keys_.end(), name);
    wanted_ = place == keys_.end() ? nullptr : &found_[place - keys_.begin()];
    if (wanted_ != nullptr) *wanted_ = Found{};
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ > 0 && !other("object")) return false;
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return no_object("array");
    if (depth_ == 1 && wanted_ != nullptr) {
      wanted_->state = State::kFound;
    } else if (!other("array")) {
      return false;
    }
    ++depth_;
    return true;
  }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool parse_error(std::size_t byte, const std::string&, const Json::exception& error) override {
    // The library's text repeats its own error number, and a line number that counts within the
    // line.
    const bool is_syntax = dynamic_cast<const Json::parse_error*>(&error) != nullptr;
    const std::string_view said = error.what();
    const auto says = [&](std::string_view word) {
      return said.find(word) != std::string_view::npos;
    };
    if (is_syntax && says("ill-formed UTF-8")) {
      problem_ = fmt::format("not UTF-8, as JSON must be (at byte {} of the line)", byte);
      return false;
    }
    if (is_syntax && says("surrogate")) {
      problem_ = fmt::format(
          "half of a surrogate pair, which is no character (at byte {} of the "
          "line): \\ud800 to \\udfff come in pairs",
          byte);
      return false;
    }
    problem_ = is_syntax ? fmt::format("not JSON (at byte {} of the line)", byte)
                         : fmt::format("not JSON that can be read: {}", error.what());
    return false;
  }

 private:
  enum class State { kMissing, kFound, kWrong, kWrongElement };
  struct Found {
    State state = State::kMissing;
    const char* type = "";  // of what is wrong
    Texts texts;
  };

  bool no_object(const char* type) {
    problem_ = fmt::format("a JSON object is expected, got {}", type);
    return false;
  }
  // A value that is no string and no list.
  bool other(const char* type) {
    if (depth_ == 0) return no_object(type);
    if (wanted_ == nullptr || depth_ > 2 || wanted_->state > State::kFound) return true;
    wanted_->state = depth_ == 1 ? State::kWrong : State::kWrongElement;
    wanted_->type = type;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  const std::vector<std::string>& keys_;
  std::vector<Found> found_;
  Found* wanted_ = nullptr;  // of the key whose value is read
  std::int64_t depth_ = 0;
  std::string problem_;
};

}  // namespace

std::vector<std::vector<std::string>> json_texts(std::string_view line,
                                                 const std::vector<std::string>& keys,
                                                 std::string_view place) {
  TextsReader reader(keys);
  Json::sax_parse(line.begin(), line.end(), &reader);
  std::vector<Texts> texts(keys.size());
  if (const auto problem = reader.take(texts)) {
    throw DataError("{}{}{}", place, place.empty() ? "" : ": ", *problem);
  }
  return texts;
}

}  // namespace phalanx
