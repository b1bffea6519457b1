#include "phalanx/cuda/emulated/environment.h"

#include <charconv>
#include <cstdlib>
#include <set>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/cuda/emulated/driver_control.h"

namespace phalanx::cuda::emulated {
namespace {

// The whole text as a number, or `otherwise`.
int number_of(std::string_view text, int otherwise) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : otherwise;
}

int number_in(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  const int number = number_of(text, -1);
  if (number < 0) throw ConfigError("{}={} is no number", variable, text);
  return number;
}

}  // namespace

int devices_there() { return number_in("PHALANX_EMULATED_DEVICES", 1); }

int driver_version() { return number_in("PHALANX_EMULATED_DRIVER", kNeededDriver); }

int visible_devices(int devices, const char* list) {
  if (list == nullptr) return devices;
  std::set<int> shown;
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const int number = number_of(rest.substr(0, comma), -1);
    if (number < 0 || number >= devices) break;
    if (!shown.insert(number).second) return 0;
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return static_cast<int>(shown.size());
}

int visible_devices(int devices) {
  return visible_devices(devices, std::getenv("CUDA_VISIBLE_DEVICES"));
}

}  // namespace phalanx::cuda::emulated
