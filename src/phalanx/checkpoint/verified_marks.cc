#include "phalanx/checkpoint/verified_marks.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/seal.h"
#include "phalanx/checkpoint/strict_json.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "phalanx-verified";
constexpr std::int64_t kVersion = 1;
constexpr std::string_view kSealKey = "verified_xxh3";
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kLongestName = 4096;

std::string to_text(const std::map<std::string, FileStamps>& marks) {
  std::string text =
      fmt::format("{{\n  \"format\": \"{}\",\n  \"format_version\": {},\n  \"checkpoints\": [",
                  kFormat, kVersion);
  bool is_first = true;
  for (const auto& [name, stamps] : marks) {
    text += fmt::format("{}\n    {{\"directory\": {}, \"files\": [",
                        std::exchange(is_first, false) ? "" : ",", json_string(name));
    bool is_first_file = true;
    for (const auto& [file, stamp] : stamps) {
      text += fmt::format("{}\n      {{\"name\": {}, \"bytes\": {}, \"modified_ns\": {}}}",
                          std::exchange(is_first_file, false) ? "" : ",", json_string(file),
                          stamp.bytes, stamp.modified_ns);
    }
    text += "]}";
  }
  text += "],";
  return text + seal_of(text, kSealKey);
}

std::map<std::string, FileStamps> parse(const std::string& text, const std::string& path) {
  const nlohmann::json json = parse_strict_json(text, path);
  JsonObject object(json, path);
  if (object.text("format", kLongestName) != kFormat) {
    throw DataError("{}: 'format' must be {}", path, kFormat);
  }
  object.integer("format_version", kVersion, kVersion);
  check_seal(text, kSealKey, path);
  object.digest(std::string(kSealKey));
  std::map<std::string, FileStamps> marks;
  for (const auto& item : object.array("checkpoints")) {
    JsonObject checkpoint(item, path + ": checkpoints");
    FileStamps& stamps = marks[checkpoint.text("directory", kLongestName)];
    for (const auto& file : checkpoint.array("files")) {
      JsonObject stamp(file, path + ": files");
      stamps[stamp.text("name", kLongestName)] = {
          .bytes = stamp.integer("bytes", 0, kMax),
          .modified_ns =
              stamp.integer("modified_ns", std::numeric_limits<std::int64_t>::min(), kMax)};
      stamp.finish();
    }
    checkpoint.finish();
  }
  object.finish();
  return marks;
}

}  // namespace

FileStamps stamps_of(const fs::path& checkpoint) {
  FileStamps stamps;
  std::error_code error;
  for (fs::directory_iterator entry(checkpoint, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat status {};
    if (::stat(entry->path().c_str(), &status) != 0) {
      throw IoError("{}: cannot be looked at: {}", entry->path().string(), std::strerror(errno));
    }
    constexpr std::int64_t kNanoseconds = 1'000'000'000;
    stamps[entry->path().filename().string()] = {
        .bytes = status.st_size,
        .modified_ns = status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
  }
  if (error) throw IoError("{}: cannot be listed: {}", checkpoint.string(), error.message());
  return stamps;
}

VerifiedMarks::VerifiedMarks(const fs::path& save) : save_(save) {
  const fs::path path = save / kVerifiedName;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return;
  try {
    marks_ = parse(read_file(path), path.string());
  } catch (const Error& fault) {
    log_warning("{}; no checkpoint there counts as verified", fault.what());
  }
}

bool VerifiedMarks::has(const fs::path& checkpoint) const {
  const auto mark = marks_.find(checkpoint.filename().string());
  if (mark == marks_.end()) return false;
  try {
    return stamps_of(checkpoint) == mark->second;
  } catch (const IoError&) {
    return false;
  }
}

void VerifiedMarks::add(const fs::path& checkpoint, FileStamps read) {
  std::error_code error;
  std::erase_if(marks_, [&](const auto& mark) { return !fs::exists(save_ / mark.first, error); });
  marks_[checkpoint.filename().string()] = std::move(read);
  write_file_durably(save_ / kVerifiedName, to_text(marks_));
}

}  // namespace phalanx
