// Any bytes as a chat template: they are refused with a place, or render a conversation, within the
// limits; twice the same.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/chat_template/chat_template.h"
#include "require.h"

namespace phalanx {
namespace {

constexpr std::string_view kFile = "fuzz.jinja";
constexpr std::size_t kMostText = std::size_t{16} << 20;

// What is rendered; or the message, where it is refused.
std::string rendered(std::string_view source) {
  try {
    const auto chat = ChatTemplate::parse(source, std::string(kFile));
    const RenderedChat whole =
        chat.render({.messages = {{"system", "S"}, {"user", " h\xc3\xa9 "}, {"assistant", "yo\n"}},
                     .add_generation_prompt = true,
                     .special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
                     .arguments = R"({"x": {"b": [1, 2.5, null], "a": "t"}})",
                     .date = std::chrono::year_month_day(std::chrono::year(2024), std::chrono::July,
                                                         std::chrono::day(26))});
    require(whole.text.size() <= kMostText, "a text of {} bytes", whole.text.size());
    std::size_t end = 0;
    for (const TextSpan& span : whole.generation) {
      require(end <= span.begin && span.begin <= span.end && span.end <= whole.text.size(),
              "the span {} to {} behind {}", span.begin, span.end, end);
      end = span.end;
    }
    return whole.text;
  } catch (const Error& error) {
    require(std::string_view(error.what()).starts_with(kFile), "without a place: {}", error.what());
    require(error.code() == ErrorCode::kBadData || error.code() == ErrorCode::kConfiguration,
            "the code {} of: {}", error.exit_status(), error.what());
    return error.what();
  }
}

}  // namespace
}  // namespace phalanx

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const std::string text = phalanx::rendered(source);
  phalanx::require(text == phalanx::rendered(source), "another text the second time");
  return 0;
}
