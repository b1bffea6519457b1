#include "phalanx/checkpoint/checkpoint_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/manifest.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "iter_";
constexpr std::string_view kAbandonedPrefix = "abandoned-";
constexpr std::string_view kStagingMark = ".tmp";
constexpr std::string_view kAsideMark = ".old";

// A number without sign that fills all of `text`.
std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::string unique_name(std::int64_t iteration, std::string_view mark) {
  return fmt::format("{}{}.{}", iteration_directory_name(iteration), mark,
                     random_digits(kUniqueDigits));
}

std::optional<std::int64_t> iteration_of_unique_name(std::string_view name, std::string_view mark) {
  const auto iteration = iteration_of_directory_name(name.substr(0, name.find('.')));
  if (!iteration ||
      !is_unique_name(name, fmt::format("{}{}.", iteration_directory_name(*iteration), mark))) {
    return std::nullopt;
  }
  return iteration;
}

std::pair<std::int64_t, std::int64_t> order(const SavedCheckpoint& checkpoint) {
  return {checkpoint.start, checkpoint.iteration};
}

bool is_checkpoint(const fs::path& directory) {
  const std::string name = directory.filename().string();
  std::error_code error;
  if (is_staging_directory_name(name) || iteration_of_aside_name(name)) {
    return fs::is_directory(directory, error);
  }
  const fs::path manifest = directory / kManifestName;
  if (!fs::exists(manifest, error)) return false;
  if (iteration_of_directory_name(name)) return true;
  // This is a copy under another name; other programs' files have such names too.
  try {
    read_manifest(manifest);
    return true;
  } catch (const Error& fault) {
    return fault.code() == ErrorCode::kConfiguration;  // a newer format
  }
}

// Sorts one entry of a save directory into complete or broken checkpoints.
void add(SaveContents& contents, const fs::path& path, std::int64_t iteration) {
  try {
    const Manifest manifest = read_manifest_of(path);
    contents.complete.push_back({.directory = path,
                                 .start = manifest.start,
                                 .iteration = iteration,
                                 .run_id = manifest.run_id});
  } catch (const Error& error) {
    contents.broken.push_back({.directory = path,
                               .iteration = iteration,
                               .reason = error.what(),
                               .newer_format = error.code() == ErrorCode::kConfiguration});
  }
}

}  // namespace

std::string iteration_directory_name(std::int64_t iteration) {
  return fmt::format("{}{:07d}", kPrefix, iteration);
}

std::optional<std::int64_t> iteration_of_directory_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto iteration = whole_number(name.substr(kPrefix.size()));
  // Only names as Phalanx writes them: "iter_12" or "iter_00000012" belong to other programs.
  if (!iteration || iteration_directory_name(*iteration) != name) return std::nullopt;
  return iteration;
}

std::string staging_directory_name(std::int64_t iteration) {
  return unique_name(iteration, kStagingMark);
}

bool is_staging_directory_name(std::string_view name) {
  // Older versions used names without random digits.
  const bool plain = name.ends_with(kStagingMark) &&
                     iteration_of_directory_name(name.substr(0, name.size() - kStagingMark.size()));
  return plain || iteration_of_unique_name(name, kStagingMark);
}

std::string aside_directory_name(std::int64_t iteration) {
  return unique_name(iteration, kAsideMark);
}

std::optional<std::int64_t> iteration_of_aside_name(std::string_view name) {
  return iteration_of_unique_name(name, kAsideMark);
}

Manifest read_manifest_of(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    throw InputMissingError("{}: no such checkpoint directory", directory.string());
  }
  const fs::path path = directory / kManifestName;
  if (!fs::exists(path, error)) {
    throw DataError("{}: has no {}: not a checkpoint of Phalanx", directory.string(),
                    kManifestName);
  }
  Manifest manifest = read_manifest(path);
  const std::string name = directory.filename().string();
  const auto named = iteration_of_aside_name(name) ? iteration_of_aside_name(name)
                                                   : iteration_of_directory_name(name);
  if (named && *named != manifest.iteration) {
    throw DataError("{}: is of iteration {}, not of the directory's", path.string(),
                    manifest.iteration);
  }
  return manifest;
}

SaveContents save_contents(const fs::path& save) {
  SaveContents contents;
  std::vector<std::pair<std::int64_t, fs::path>> aside;
  std::error_code error;
  for (fs::directory_iterator entry(save, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (const auto iteration = iteration_of_directory_name(name)) {
      add(contents, entry->path(), *iteration);
    } else if (const auto replaced = iteration_of_aside_name(name)) {
      aside.emplace_back(*replaced, entry->path());
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw IoError("{}: cannot be listed: {}", save.string(), error.message());
  }
  std::set<std::int64_t> whole;
  for (const auto& checkpoint : contents.complete) whole.insert(checkpoint.iteration);
  for (const auto& [iteration, path] : aside) {
    if (whole.contains(iteration)) {
      contents.replaced.push_back(path);
    } else {
      add(contents, path, iteration);
    }
  }
  std::ranges::sort(contents.complete, {}, [](const auto& checkpoint) {
    return std::tuple(checkpoint.start, checkpoint.iteration, checkpoint.directory);
  });
  std::ranges::sort(contents.broken, {}, [](const auto& broken) {
    return std::pair(broken.iteration, broken.directory);
  });
  std::ranges::sort(contents.replaced);
  return contents;
}

std::vector<SavedCheckpoint> saved_checkpoints(const fs::path& save) {
  return save_contents(save).complete;
}

fs::path directory_of_iteration(const fs::path& save, std::int64_t iteration) {
  fs::path path = save / iteration_directory_name(iteration);
  std::error_code error;
  if (fs::exists(path, error)) return path;
  for (auto& checkpoint : saved_checkpoints(save)) {
    // If there are two copies, the later one counts.
    if (checkpoint.iteration == iteration) path = std::move(checkpoint.directory);
  }
  return path;
}

std::vector<fs::path> checkpoints_after(const fs::path& save, std::int64_t start,
                                        std::int64_t iteration) {
  const SaveContents contents = save_contents(save);
  std::vector<fs::path> after;
  for (const auto& broken : contents.broken) {
    if (broken.iteration > iteration) after.push_back(broken.directory);
  }
  for (const auto& path : contents.replaced) {
    if (iteration_of_aside_name(path.filename().string()) > iteration) after.push_back(path);
  }
  for (const auto& checkpoint : contents.complete) {
    if (order(checkpoint) > std::pair(start, iteration)) after.push_back(checkpoint.directory);
  }
  return after;
}

bool is_abandoned_name(std::string_view name) {
  return name.starts_with(kAbandonedPrefix) && whole_number(name.substr(kAbandonedPrefix.size()));
}

std::string free_abandoned_name(const fs::path& save) {
  for (std::int64_t n = 1;; ++n) {
    std::string name = fmt::format("{}{}", kAbandonedPrefix, n);
    std::error_code error;
    if (!fs::exists(fs::symlink_status(save / name, error))) return name;
  }
}

fs::path make_abandoned_directory(const fs::path& save, std::string_view name) {
  fs::path path = save / name;
  std::error_code error;
  fs::create_directory(path, error);
  if (error || !fs::is_directory(path, error)) {
    throw OutputError("{}: cannot create: {}", path.string(),
                      error ? error.message() : "something else is there");
  }
  sync_directory(save);
  return path;
}

void move_into(const fs::path& abandoned, std::span<const fs::path> paths) {
  // The last first: a crash on the way leaves a history without its end.
  for (auto next = paths.rbegin(); next != paths.rend(); ++next) {
    const fs::path& path = *next;
    std::error_code error;
    fs::rename(path, abandoned / path.filename(), error);
    if (error) {
      throw OutputError("{}: cannot move into {}: {}", path.string(), abandoned.string(),
                        error.message());
    }
    sync_directory(abandoned);
    sync_directory(path.parent_path());
  }
}

std::optional<fs::path> checkpoint_around(const fs::path& path) {
  const fs::path absolute = absolute_path(path).lexically_normal();
  std::error_code error;
  for (const fs::path& start : {fs::weakly_canonical(absolute, error), absolute}) {
    for (fs::path at = start; at.has_relative_path(); at = at.parent_path()) {
      if (is_checkpoint(at)) return at;
    }
  }
  return std::nullopt;
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

void write_tracker(const fs::path& save, std::int64_t iteration) {
  write_file_durably(save / kTrackerName, std::to_string(iteration));
}

}  // namespace phalanx
