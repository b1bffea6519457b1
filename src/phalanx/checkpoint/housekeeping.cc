#include "phalanx/checkpoint/housekeeping.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/base/progress.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/verified_marks.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// File by file: a large one takes seconds, and meanwhile the directory may be moved.
void remove_leftover(const fs::path& path, const DirectoryHolder& holder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  entries.push_back(path);
  error.clear();
  for (const fs::path& entry : entries) {
    if (!holder.holds_directory()) return;
    const FileAccess access("removing", entry);
    fs::remove_all(entry, error);
    if (error) break;
    note_progress();
  }
  if (error) log_warning("{}: cannot be removed and stays: {}", path.string(), error.message());
}

// Entries of `save` that a killed run left unfinished.
std::vector<fs::path> leftovers(const fs::path& save) {
  // Older versions used this name. The tracker's newer temporary files are removed by the next
  // write.
  const std::string old_tracker = std::string(kTrackerName).append(".tmp");
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(save, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_staging_directory_name(name) || name == old_tracker) found.push_back(entry->path());
  }
  if (error) log_warning("{}: cannot be listed: {}", save.string(), error.message());
  return found;
}

// Gives a copy that was set aside and not replaced its name back.
void put_back(const fs::path& save, const fs::path& aside) {
  const auto iteration = iteration_of_aside_name(aside.filename().string());
  const fs::path target = save / iteration_directory_name(*iteration);
  std::error_code error;
  // A broken directory of that name is left for the user to look at.
  if (fs::exists(fs::symlink_status(target, error))) return;
  fs::rename(aside, target, error);
  if (error) log_warning("{}: cannot get its name back: {}", aside.string(), error.message());
}

void try_to_tidy_up(const fs::path& save, const DirectoryHolder& holder) {
  const std::vector<fs::path> unfinished = leftovers(save);
  const SaveContents contents = save_contents(save);
  // A run that was killed may have given names that are not on the disk yet. What they replaced
  // must stay until they are.
  if (!unfinished.empty() || !contents.replaced.empty()) sync_directory(save);
  for (const auto& path : unfinished) remove_leftover(path, holder);
  for (const auto& path : contents.replaced) remove_leftover(path, holder);
  // The latest first: of two copies of one iteration it gets the name.
  for (auto next = contents.complete.rbegin(); next != contents.complete.rend(); ++next) {
    if (iteration_of_aside_name(next->directory.filename().string()) && holder.holds_directory()) {
      put_back(save, next->directory);
    }
  }
}

// Takes the checkpoints of other runs out of the list.
void leave_others(std::vector<SavedCheckpoint>& saved, const DirectoryHolder& holder) {
  const auto others = std::stable_partition(
      saved.begin(), saved.end(), [&](const auto& one) { return holder.owns(one.run_id); });
  if (others == saved.end()) return;
  log_warning(
      "{} is of another run than those that are saved there: it stays. Does another run save there "
      "too? Give each a --save of its own, or move it away",
      others->directory.string());
  saved.erase(others, saved.end());
}

void try_to_prune(const fs::path& save, std::int64_t start, std::int64_t iteration,
                  const Retention& retention, const DirectoryHolder& holder) {
  std::vector<SavedCheckpoint> saved = saved_checkpoints(save);
  leave_others(saved, holder);
  std::erase_if(saved, [&](const SavedCheckpoint& checkpoint) {
    return std::pair(checkpoint.start, checkpoint.iteration) > std::pair(start, iteration);
  });
  std::optional<VerifiedMarks> marks;  // are looked at where something would go
  const auto is_verified = [&](const SavedCheckpoint& checkpoint) {
    if (!marks) marks.emplace(save);
    return marks->has(checkpoint.directory);
  };
  std::vector<fs::path> doomed;
  for (const SavedCheckpoint& old : superfluous(saved, retention, is_verified)) {
    if (!holder.holds_directory()) return;
    const fs::path path = save / staging_directory_name(old.iteration);
    std::error_code error;
    fs::rename(old.directory, path, error);
    if (error) {
      log_warning("{}: cannot be removed and stays: {}", old.directory.string(), error.message());
    } else {
      doomed.push_back(path);
    }
  }
  // Half removed, it must not look like a checkpoint, neither after a loss of power.
  if (!doomed.empty()) sync_directory(save);
  for (const fs::path& path : doomed) remove_leftover(path, holder);
}

}  // namespace

void tidy_up(const fs::path& save, const DirectoryHolder& holder) {
  try {
    if (holder.holds_directory()) try_to_tidy_up(save, holder);
  } catch (const std::exception& error) {
    log_warning("what killed runs left stays: {}", error.what());
  }
}

void prune(const fs::path& save, std::int64_t start, std::int64_t iteration,
           const Retention& retention, const DirectoryHolder& holder) {
  try {
    if (retention.keep_last > 0) try_to_prune(save, start, iteration, retention, holder);
  } catch (const std::exception& error) {
    log_warning("older checkpoints stay: {}", error.what());
  }
}

}  // namespace phalanx
