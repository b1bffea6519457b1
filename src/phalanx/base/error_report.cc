#include "phalanx/base/error_report.h"

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "phalanx/base/file.h"

namespace phalanx {
namespace {

constexpr std::size_t kMaxText = 16 << 10;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD, for invalid UTF-8

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
}

// Length of the UTF-8 character at the start of `text`; 0 if invalid, also for overlong forms and
// surrogates.
std::size_t utf8_length(std::string_view text) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_at(text, i) & 0xc0U) != 0x80) return 0;
  const unsigned second = byte_at(text, 1);
  const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_character = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  return too_long || no_character ? 0 : length;
}

std::string json_string(std::string_view text) {
  const bool cut = text.size() > kMaxText;
  text = text.substr(0, kMaxText);
  std::string json = "\"";
  while (!text.empty()) {
    const char c = text[0];
    const std::size_t length = utf8_length(text);
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (c == '\n') {
      json += "\\n";
    } else if ((c >= 0 && c < ' ') || c == '\x7f') {
      json += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else if (length == 0) {
      json += kReplacement;
    } else {
      json += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return json + (cut ? "...\"" : "\"");
}

}  // namespace

std::string error_report_json(const ErrorReport& report,
                              std::chrono::system_clock::time_point now) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  const std::string culprit =
      report.culprit
          ? fmt::format(R"({{"rank": {}, "host": {}, "reason": {}}})", report.culprit->rank,
                        json_string(report.culprit->host), json_string(report.culprit->reason))
          : "null";
  return fmt::format(R"({{"message": {{"message": {}, "extraInfo": {{"timestamp": "{}"}}}}, )"
                     R"("code": {}, "rank": {}, "culprit": {}}})"
                     "\n",
                     json_string(report.message), seconds, report.code, report.rank, culprit);
}

bool write_error_report(const ErrorReport& report) noexcept {
  try {
    const char* const path = std::getenv("TORCHELASTIC_ERROR_FILE");
    if (path == nullptr || *path == '\0') return false;
    write_file_durably(path, error_report_json(report, std::chrono::system_clock::now()));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace phalanx
