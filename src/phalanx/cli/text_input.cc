#include "phalanx/cli/text_input.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/utf8.h"

namespace phalanx {

namespace {

std::vector<std::int32_t> ids_of_json(const std::string& text, std::string_view source) {
  try {
    std::vector<std::int32_t> ids;
    for (const auto& item : nlohmann::json::parse(text)) {
      const auto id = item.get<std::int64_t>();
      if (!item.is_number_integer() || id < 0 || id > INT32_MAX) {
        throw DataError("{}: {} is not a token id", source, item.dump());
      }
      ids.push_back(static_cast<std::int32_t>(id));
    }
    return ids;
  } catch (const nlohmann::json::exception& fault) {
    throw DataError("{} is no list of token ids: {}", source, fault.what());
  }
}

void greet_typist(const CommandIo& io) {
  if (io.is_typed()) log_info("reading standard input; Ctrl-D ends it");
}

}  // namespace

std::string standard_input(CommandIo& io) {
  greet_typist(io);
  std::string text;
  while (io.read_more(text)) {
  }
  return text;
}

std::vector<std::string> InputLines::next(std::size_t most) {
  if (!has_begun_) greet_typist(io_);
  has_begun_ = true;
  std::vector<std::string> lines;
  while (true) {
    for (std::size_t end = 0; lines.size() < most; taken_ = searched_ = end + 1) {
      end = text_.find('\n', searched_);
      // The last line needs no end.
      if (end == std::string::npos) {
        if (!has_ended_ || taken_ >= text_.size()) break;
        end = text_.size();
      }
      std::string& line = lines.emplace_back(text_.substr(taken_, end - taken_));
      if (line.ends_with('\r')) line.pop_back();
    }
    if (!lines.empty() || has_ended_) return lines;
    searched_ = text_.size() - taken_;
    text_.erase(0, taken_);
    taken_ = 0;
    has_ended_ = !io_.read_more(text_);
  }
}

void check_utf8(std::string_view text, std::string_view source) {
  for (std::size_t at = 0; at < text.size();) {
    const auto character = utf8_character(text, at);
    if (!character) {
      throw DataError("{}: byte {} is no UTF-8: convert the text first (iconv does)", source, at);
    }
    at += character->bytes;
  }
}

std::vector<std::int32_t> token_ids_of(const std::string& text, std::string_view source) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return {};
  if (text[first] == '[') return ids_of_json(text, source);
  std::vector<std::int32_t> ids;
  for (std::size_t at = first; at != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    std::int32_t id = -1;
    const auto [rest, fault] = std::from_chars(text.data() + at, text.data() + end, id);
    if (fault != std::errc() || rest != text.data() + end || id < 0) {
      throw DataError("{}: {} is not a token id", source, text.substr(at, end - at));
    }
    ids.push_back(id);
    at = text.find_first_not_of(kBlanks, end);
  }
  return ids;
}

}  // namespace phalanx
