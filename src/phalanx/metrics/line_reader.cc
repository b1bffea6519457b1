#include "phalanx/metrics/line_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/input_descriptor.h"

namespace phalanx {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::size_t kLongest = std::size_t{64} << 20;

}  // namespace

void for_each_line(const std::filesystem::path& path, const TakeLine& take) {
  const InputDescriptor file(path);
  std::string chunk(kChunk, '\0');
  std::string begun;  // the begin of a line that goes on in the next chunk
  while (true) {
    const auto got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError("{}: cannot read: {}", path.string(), std::strerror(errno));
    if (got == 0) break;
    std::string_view rest(chunk.data(), static_cast<std::size_t>(got));
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      const std::string_view part = rest.substr(0, end);
      const bool is_whole = end != std::string_view::npos;
      if (!begun.empty() || !is_whole) {
        begun += part.substr(0, kLongest - std::min(kLongest, begun.size()));
      }
      if (is_whole) {
        take(begun.empty() ? part : std::string_view(begun), true);
        begun.clear();
      }
      rest.remove_prefix(is_whole ? end + 1 : rest.size());
    }
  }
  if (!begun.empty()) take(begun, false);
}

}  // namespace phalanx
