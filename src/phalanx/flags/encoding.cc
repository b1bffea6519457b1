#include "phalanx/flags/encoding.h"

#include "phalanx/base/error.h"
#include "phalanx/base/utf8.h"

namespace phalanx {

void expect_utf8(std::string_view what, std::string_view text) {
  const auto foreign = first_foreign_byte(text);
  if (!foreign) return;
  throw UsageError(
      "{} '{}': not UTF-8 from byte {} on: give another name to what it names (mv), or convert the "
      "text (iconv)",
      what, with_foreign_bytes_named(text), *foreign + 1);
}

void expect_utf8(const std::vector<std::string>& words) {
  std::string flag;
  for (const std::string& word : words) {
    const bool begins_flag = word.starts_with("--");
    const std::size_t equals = begins_flag ? word.find('=') : std::string::npos;
    if (begins_flag) flag = with_foreign_bytes_named(word.substr(0, equals));
    if (equals != std::string::npos) {
      expect_utf8(flag, word.substr(equals + 1));
    } else {
      expect_utf8(flag.empty() || begins_flag ? "the word" : flag, word);
    }
  }
}

}  // namespace phalanx
