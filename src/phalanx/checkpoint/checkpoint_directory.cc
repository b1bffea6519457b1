#include "phalanx/checkpoint/checkpoint_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "iter_";
constexpr std::string_view kStagingSuffix = ".tmp";

// A number without sign that fills all of `text`.
std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

std::string iteration_directory_name(std::int64_t iteration) {
  return fmt::format("{}{:07d}", kPrefix, iteration);
}

std::optional<std::int64_t> iteration_of_directory_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto iteration = whole_number(name.substr(kPrefix.size()));
  // Only the names that are written: "iter_12" or "iter_00000012" are somebody else's.
  if (!iteration || iteration_directory_name(*iteration) != name) return std::nullopt;
  return iteration;
}

std::string staging_directory_name(std::int64_t iteration) {
  return iteration_directory_name(iteration).append(kStagingSuffix);
}

bool is_staging_directory_name(std::string_view name) {
  if (!name.ends_with(kStagingSuffix)) return false;
  name.remove_suffix(kStagingSuffix.size());
  return iteration_of_directory_name(name).has_value();
}

std::vector<std::int64_t> saved_iterations(const fs::path& save) {
  std::vector<std::int64_t> iterations;
  std::error_code error;
  for (fs::directory_iterator entry(save, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto iteration = iteration_of_directory_name(entry->path().filename().string());
    std::error_code unreadable;
    if (iteration && fs::exists(entry->path() / kManifestName, unreadable)) {
      iterations.push_back(*iteration);
    }
  }
  std::sort(iterations.begin(), iterations.end());
  return iterations;
}

std::optional<std::int64_t> read_tracker(const fs::path& save) {
  const fs::path path = save / kTrackerName;
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const std::string text = read_file(path);
  constexpr std::string_view kSpace = " \t\r\n";
  const auto begin = text.find_first_not_of(kSpace);
  const auto iteration = begin == std::string::npos
                             ? std::nullopt
                             : whole_number(std::string_view(text).substr(
                                   begin, text.find_last_not_of(kSpace) + 1 - begin));
  if (!iteration) {
    throw DataError("{}: does not hold an iteration number", path.string());
  }
  return iteration;
}

}  // namespace phalanx
