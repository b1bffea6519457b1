#include "phalanx/flag_table/deepspeed/json_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"

namespace phalanx::deepspeed {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestShown = 120;

// Refuses equal keys, of which the parser would keep the last, and reports the place of what the
// parser refuses.
class StructureReader : public nlohmann::json_sax<Json> {
 public:
  StructureReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  bool start_object(std::size_t /*elements*/) override {
    keys_.emplace_back();
    return enter();
  }
  bool key(string_t& key) override {
    path_.back() = key;
    if (keys_.back().insert(key).second) return true;
    throw DataError("{}: {} comes twice: keep one of them", file_,
                    shown_path(fmt::format("{}", fmt::join(named(), "."))));
  }
  bool end_object() override {
    keys_.pop_back();
    path_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*elements*/) override { return enter(); }
  bool end_array() override {
    path_.pop_back();
    return true;
  }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    // The parser counts what it has read.
    const std::size_t at = std::min(position == 0 ? 0 : position - 1, text_.size());
    const std::string_view before = text_.substr(0, at);
    const auto line = std::ranges::count(before, '\n') + 1;
    const std::size_t begin = before.rfind('\n') + 1;  // 0 where there is no line before
    throw DataError("{}:{}:{}: {}", file_, line, at - begin + 1, fault_at(at));
  }

 private:
  bool enter() {
    path_.emplace_back();
    if (path_.size() <= kMostDepth) return true;
    throw DataError("{}: more than {} objects and lists within each other", file_, kMostDepth);
  }

  // Objects and lists in lists have no name.
  std::vector<std::string> named() const {
    std::vector<std::string> names = path_;
    std::erase(names, "");
    return names;
  }

  std::string fault_at(std::size_t at) const {
    if (text_.find_first_not_of(" \t\r\n") == std::string_view::npos) return "the file is empty";
    if (at >= text_.size()) return "the file ends before its last bracket: is a } missing?";
    const char found = text_[at];
    const std::size_t last = text_.substr(0, at).find_last_not_of(" \t\r\n");
    const char before = last == std::string_view::npos ? '\0' : text_[last];
    if (found == '#' || found == '/') {
      return "a comment, which JSON does not have: remove it";
    }
    if ((found == '}' || found == ']') && before == ',') {
      return fmt::format("a comma before {}, which JSON does not have: remove it", found);
    }
    if (found == '\'') return "JSON has text in double quotes";
    return "this is no JSON";
  }

  std::string_view text_;
  std::string_view file_;
  std::vector<std::string> path_;  // the key that is open in each object; "" in a list
  std::vector<std::set<std::string>> keys_;
};

void check_size(std::size_t bytes, std::string_view file) {
  if (bytes <= kMostBytes) return;
  throw DataError("{}: {} bytes are more than settings need ({} at most): is this the right file?",
                  file, bytes, kMostBytes);
}

}  // namespace

Json parse_settings(std::string_view text, std::string_view file) {
  check_size(text.size(), file);
  StructureReader structure(text, file);
  Json::sax_parse(text.begin(), text.end(), &structure);
  Json settings = Json::parse(text.begin(), text.end());
  if (!settings.is_object()) {
    throw DataError("{}: {} is no object: settings stand between {{ and }}", file, shown(settings));
  }
  return settings;
}

Json read_settings(const std::string& path) {
  // Checked before it is read: a pipe may never end.
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw DataError("{}: this is no regular file", path);
  }
  const auto bytes = std::filesystem::file_size(path, unknown);
  if (!unknown) check_size(bytes, path);
  return parse_settings(read_file(path), path);
}

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongestShown) text = text.substr(0, kLongestShown) + "...";
  return text;
}

std::string shown_path(std::string_view path) {
  const bool is_plain =
      !path.empty() && std::ranges::all_of(path, [](char c) { return c > ' ' && c < '\x7f'; });
  if (is_plain && path.size() <= kLongestShown) return std::string(path);
  return shown(Json(path));
}

}  // namespace phalanx::deepspeed
