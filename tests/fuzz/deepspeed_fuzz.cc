// Any bytes as a DeepSpeed file: they are refused with the file's name, or read; and every flag
// that comes of them has a value and a place.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/flag_table/deepspeed/json_text.h"
#include "phalanx/flag_table/deepspeed/settings.h"
#include "require.h"

namespace phalanx::deepspeed {
namespace {

constexpr std::string_view kFile = "fuzz.json";

bool is_line(std::string_view text) {
  return text.starts_with(kFile) && text.find('\n') == std::string_view::npos;
}

void check(std::string_view text) {
  try {
    Settings settings(std::string(kFile), parse_settings(text, kFile));
    const FileFlags flags = settings.take();
    for (const auto& given : flags.flags) {
      require(given.name.starts_with("--") && given.words.size() == 1 && is_line(given.place),
              "{} {}: no flag with a value", given.place, given.name);
    }
    for (const auto* messages : {&flags.notes, &flags.misuses, &flags.faults}) {
      for (const std::string& message : *messages) {
        require(is_line(message), "without a place: {}", message);
      }
    }
  } catch (const DataError& error) {
    require(is_line(error.what()), "without a place: {}", error.what());
  }
}

}  // namespace
}  // namespace phalanx::deepspeed

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  phalanx::deepspeed::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
