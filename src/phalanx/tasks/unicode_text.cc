#include "phalanx/tasks/unicode_text.h"

#include <algorithm>
#include <cstddef>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/utf8.h"

namespace phalanx {
namespace {

struct SpaceRun {
  std::size_t begin = 0, end = 0;
};

// The character at a byte. A byte that is not UTF-8 is one character, which is not white space.
Utf8Character character_at(std::string_view text, std::size_t at) {
  return utf8_character(text, at).value_or(Utf8Character{.code = 0xfffd, .bytes = 1});
}

// Calls visit(run) for each stretch of white space, in order.
template <typename Visit>
void visit_spaces(std::string_view text, const Visit& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    Utf8Character next = character_at(text, at);
    while (is_space(next.code)) {
      at += next.bytes;
      if (at == text.size()) break;
      next = character_at(text, at);
    }
    if (at > begin) {
      visit(SpaceRun{begin, at});
    } else {
      at += next.bytes;
    }
  }
}

}  // namespace

bool is_space(char32_t code) {
  if (code < 0x80) return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20);
  if (code >= 0x2000 && code <= 0x200a) return true;
  constexpr char32_t kOthers[] = {0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
  return std::ranges::find(kOthers, code) != std::end(kOthers);
}

std::string_view strip(std::string_view text) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  visit_spaces(text, [&](const SpaceRun& run) {
    if (run.begin == 0) begin = run.end;
    if (run.end == text.size()) end = run.begin;
  });
  return begin >= end ? std::string_view{} : text.substr(begin, end - begin);
}

std::string_view last_word(std::string_view text) {
  text = strip(text);
  std::size_t begin = 0;
  visit_spaces(text, [&](const SpaceRun& run) { begin = run.end; });
  return text.substr(begin);
}

std::string collapse_spaces(std::string_view text) {
  std::string result;
  std::size_t done = 0;
  visit_spaces(text, [&](const SpaceRun& run) {
    result += text.substr(done, run.begin - done);
    result += ' ';
    done = run.end;
  });
  result += text.substr(done);
  return result;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    result += text.substr(done, at - done);
    result += to;
    done = at + from.size();
  }
  result += text.substr(done);
  return result;
}

std::string read_text_file(const std::string& path) {
  std::string text = read_file(path);
  for (std::size_t at = 0; at < text.size();) {
    const auto character = utf8_character(text, at);
    if (!character) {
      throw DataError("{}: byte {} is no UTF-8: convert the file first (iconv does)", path, at);
    }
    at += character->bytes;
  }
  return text;
}

}  // namespace phalanx
