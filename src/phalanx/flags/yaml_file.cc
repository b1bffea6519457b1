#include "phalanx/flags/yaml_file.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/utf8.h"
#include "phalanx/flags/encoding.h"
#include "phalanx/flags/flag_spec.h"

namespace phalanx {
namespace {

// Counted from 1, as editors do; yaml-cpp counts from 0.
std::string place_of(std::string_view file, const YAML::Mark& mark) {
  if (mark.is_null()) return std::string(file);
  return fmt::format("{}:{}:{}", file, mark.line + 1, mark.column + 1);
}

bool is_name(std::string_view text) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && (text.front() < '0' || text.front() > '9') &&
         std::all_of(text.begin(), text.end(), is_word);
}

// Takes the parser's events. They come before the parser goes deeper, so what is refused here
// does not make it recurse.
class EntryReader : public YAML::EventHandler {
 public:
  EntryReader(std::string_view file, const Environment& environment)
      : file_(file), environment_(environment) {}

  YamlContents take() { return std::move(contents_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      fail(mark, "the file goes on behind its end: one document, without a second ---, is all");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    if (mappings_.empty()) return;  // an empty file
    if (in_list_) fail(mark, "an item has no value: remove it, or quote it if it is text");
    if (!entry_) fail(mark, "the key is missing before the colon");
    // A key without a colon has the place of its value.
    if (mark.pos == key_position_) {
      fail(mark, fmt::format("{} has no colon and no value behind it", entry_->key));
    }
    remember(*entry_);
    entry_.reset();
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    refuse_tag(mark, tag);
    if (mappings_.empty()) fail(mark, "this must be a key and a value, such as num_layers: 24");
    if (!entry_) {
      begin(mark, value);
      return;
    }
    entry_->words.push_back(expanded(mark, value));
    if (!in_list_) finish();
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    refuse_tag(mark, tag);
    if (mappings_.empty()) fail(mark, "the file must be keys and values, not a list");
    if (in_list_) fail(mark, "a list in a list: no flag takes one");
    if (!entry_) fail(mark, "keys are names of flags, not lists; or is a ] missing?");
    in_list_ = true;
    entry_->is_list = true;
  }
  void OnSequenceEnd() override {
    in_list_ = false;
    finish();
  }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    refuse_tag(mark, tag);
    if (in_list_) fail(mark, "keys in a list, which no flag takes, or a missing ]");
    if (!mappings_.empty() && !entry_) fail(mark, "keys are names of flags; or is a } missing?");
    if (mappings_.size() > kMostYamlDepth) {
      fail(mark, fmt::format("more than {} headings within each other", kMostYamlDepth));
    }
    if (entry_) contents_.headings.push_back(std::move(*entry_));
    entry_.reset();
    mappings_.emplace_back();
  }
  void OnMapEnd() override { mappings_.pop_back(); }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    fail(mark, fmt::format("anchor &{}: write the value out where it is needed", name));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    fail(mark, "an alias: write the value out");
  }

 private:
  using Places = std::map<std::string, std::string>;  // of keys, by the name of their flag

  [[noreturn]] void fail(const YAML::Mark& mark, std::string_view what) const {
    throw DataError("{}: {}", place_of(file_, mark), what);
  }

  // Quoted text has the tag !, all else that has none the tag ?.
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag != "!" && tag != "?" && !tag.empty()) {
      fail(mark, fmt::format("tag {}: remove it; a value has the type of its flag", tag));
    }
  }

  static void add(Places& places, const YamlEntry& entry) {
    const auto [before, is_new] = places.emplace(canonical_name(entry.key), entry.place);
    if (!is_new) {
      throw DataError("{}: {} is there already, at {}: keep one of them", entry.place, entry.key,
                      before->second);
    }
  }
  // A key that is no heading: its flag may not come again, whatever the heading.
  void remember(const YamlEntry& entry) { add(keys_, entry); }

  void begin(const YAML::Mark& mark, const std::string& key) {
    if (key.empty()) fail(mark, "the key is empty: keys are names of flags");
    if (key == "<<") fail(mark, "a merge of keys: write the values out");
    entry_ = YamlEntry{.key = key, .place = place_of(file_, mark)};
    key_position_ = mark.pos;
    add(mappings_.back(), *entry_);
  }
  void finish() {
    remember(*entry_);
    contents_.entries.push_back(std::move(*entry_));
    entry_.reset();
  }

  std::string expanded(const YAML::Mark& mark, std::string_view value);
  std::string value_of_variable(const YAML::Mark& mark, std::string_view name) const;

  std::string_view file_;
  const Environment& environment_;
  YamlContents contents_;
  Places keys_;
  std::vector<Places> mappings_;    // the open mappings, with the keys and headings of each
  std::optional<YamlEntry> entry_;  // the entry whose key was read
  int key_position_ = 0;
  bool in_list_ = false;  // inside the list that is the value of entry_
  int documents_ = 0;
  std::size_t variable_bytes_ = 0;  // bytes that came from the environment
};

// With ${NAME} replaced; $${ is ${.
std::string EntryReader::expanded(const YAML::Mark& mark, std::string_view value) {
  if (value.find('\0') != std::string_view::npos) fail(mark, "a zero byte: no flag takes one");
  std::string text;
  while (!value.empty()) {
    if (value.starts_with("$${")) {
      text += "${";
      value.remove_prefix(3);
    } else if (value.starts_with("${")) {
      const auto end = value.find('}');
      const auto name = value.substr(2, end == std::string_view::npos ? 0 : end - 2);
      const std::string variable = value_of_variable(mark, name);
      variable_bytes_ += variable.size();
      if (variable_bytes_ > kMostYamlBytes) {
        fail(mark, fmt::format("with variables the file has more than {} bytes", kMostYamlBytes));
      }
      text += variable;
      value.remove_prefix(end + 1);
    } else {
      text += value.front();
      value.remove_prefix(1);
    }
  }
  return text;
}

std::string EntryReader::value_of_variable(const YAML::Mark& mark, std::string_view name) const {
  if (!is_name(name)) {
    fail(mark, "${ without a name of a variable and }: write $${ for a ${ that stays");
  }
  if (!environment_) {
    fail(mark, fmt::format("${{{0}}} is not replaced by the variable of the environment: give "
                           "--yaml-env for that, or write $${{{0}}} for text that stays",
                           name));
  }
  auto value = environment_(std::string(name));
  if (!value) {
    fail(mark, fmt::format("the environment has no variable {}: set it, or write $${{ for a ${{ "
                           "that stays",
                           name));
  }
  expect_utf8(fmt::format("{}: the environment's {}", place_of(file_, mark), name), *value);
  return *std::move(value);
}

// Bytes that yaml-cpp would take for another encoding, or for the end of the text.
void check_characters(std::string_view text, std::string_view file) {
  int line = 1;
  std::size_t line_begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = utf8_character(text, at);
    const auto place = [&] { return fmt::format("{}:{}:{}", file, line, at - line_begin + 1); };
    if (!character) {
      throw DataError("{}: byte {:#04x} is no UTF-8: save the file as UTF-8", place(),
                      static_cast<unsigned char>(text[at]));
    }
    if (!is_printable(character->code)) {
      throw DataError("{}: control character U+{:04X}: remove it, or write \"\\u{:04x}\"", place(),
                      static_cast<unsigned>(character->code),
                      static_cast<unsigned>(character->code));
    }
    at += character->bytes;
    if (character->code == '\n') {
      ++line;
      line_begin = at;
    }
  }
}

// The parser's message. It may cite half a character.
std::string message_of(const YAML::Exception& error) {
  if (error.msg == YAML::ErrorMsg::DOC_IN_SCALAR) return "a quoted text does not end before here";
  std::string message = "this is no YAML: " + error.msg;
  std::replace_if(
      message.begin(), message.end(), [](char c) { return static_cast<unsigned char>(c) > 0x7e; },
      '?');
  return message;
}

void check_size(std::size_t bytes, std::string_view file) {
  if (bytes > kMostYamlBytes) {
    throw DataError("{}: {} bytes are more than flags need ({} at most): is this the right file?",
                    file, bytes, kMostYamlBytes);
  }
}

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return {};
  return value;
}

YamlContents parse_yaml(std::string_view text, std::string_view file,
                        const Environment& environment) {
  check_size(text.size(), file);
  check_characters(text, file);
  EntryReader reader(file, environment);
  try {
    // With a mark of the end: yaml-cpp takes the end of a file for the end of a quoted text.
    std::istringstream stream(fmt::format("{}{}...\n", text, text.ends_with('\n') ? "" : "\n"));
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(reader)) {
    }
  } catch (const YAML::Exception& error) {
    throw DataError("{}: {}", place_of(file, error.mark), message_of(error));
  }
  return reader.take();
}

YamlContents read_yaml(const std::string& path, const Environment& environment) {
  // Checked before it is read: a checkpoint would fill the memory, and a pipe may never end.
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw DataError("{}: this is no regular file", path);
  }
  const auto bytes = std::filesystem::file_size(path, unknown);
  if (!unknown) check_size(bytes, path);
  return parse_yaml(read_file(path), path, environment);
}

}  // namespace phalanx
