#include "phalanx/corpus/preprocess_partitions.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/input_path.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/data/indexed_dataset.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kPartitionMark = ".partition-";
constexpr int kRecordVersion = 2;  // 1 told the format by the name alone

bool can_be_cut(const CorpusSegment& file, Compression compression) {
  const CorpusRules& rules = file.rules;
  if (compression != Compression::kNone) return false;
  if (rules.format == CorpusFormat::kJsonLines || rules.split_on_blank_lines) return true;
  return !rules.separator.empty() && cuts_alike_everywhere(rules.separator);
}

// The first place from `at` on where a document may begin; at most the end of the file.
std::int64_t next_cut(const CorpusSegment& file, std::int64_t at, std::int64_t size) {
  if (at <= 0 || at >= size) return std::clamp<std::int64_t>(at, 0, size);
  // From the byte before, because with a line break there `at` begins a line.
  CorpusInput input(file.path, {at - 1, size});
  std::string text;
  for (std::size_t goal = std::size_t{1} << 16;; goal *= 2) {
    std::size_t filled = text.size();
    text.resize(goal);
    while (filled < goal) {
      const std::size_t got = input.read(std::span(text).subspan(filled));
      if (got == 0) break;
      filled += got;
    }
    text.resize(filled);
    // The bytes before the first line break are the rest of a line that begins earlier.
    const std::string_view behind = text;
    const CorpusRules& rules = file.rules;
    const bool by_separator = rules.format == CorpusFormat::kText && !rules.split_on_blank_lines;
    const auto first = by_separator ? behind.find(rules.separator, 1) : behind.find('\n');
    if (first != std::string_view::npos) {
      std::size_t cut = first + (by_separator ? rules.separator.size() : 1);
      if (rules.format == CorpusFormat::kJsonLines || by_separator) {
        return at - 1 + static_cast<std::int64_t>(cut);
      }
      const std::size_t paragraphs = settled_size(behind.substr(cut), rules);
      if (paragraphs > 0) return at - 1 + static_cast<std::int64_t>(cut + paragraphs);
    }
    if (filled < goal) return size;
  }
}

struct FileState {
  std::int64_t bytes = -1;
  std::int64_t changed_ns = 0;
};

FileState state_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {status.st_size,
          status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
}

std::string work_of(const std::string& settings, std::span<const CorpusSegment> segments) {
  Json inputs = Json::array();
  for (const CorpusSegment& segment : segments) {
    const FileState state = state_of(segment.path);
    inputs.push_back({{"path", recorded_path(segment.path)},
                      {"begin", segment.range.begin},
                      {"end", segment.range.end},
                      {"bytes", state.bytes},
                      {"changed_ns", state.changed_ns}});
  }
  const Json work = {{"version", kRecordVersion}, {"settings", settings}, {"inputs", inputs}};
  return work.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// ".partition-0001-of-0004" at the end.
bool is_partition_of(std::string_view name, std::string_view of) {
  if (!name.starts_with(of)) return false;
  name.remove_prefix(of.size());
  if (!name.starts_with(kPartitionMark)) return false;
  name.remove_prefix(kPartitionMark.size());
  constexpr std::string_view kDigits = "0123456789";
  const auto of_count = name.find("-of-");
  return of_count != std::string_view::npos && of_count > 0 && name.size() > of_count + 4 &&
         name.substr(0, of_count).find_first_not_of(kDigits) == std::string_view::npos &&
         name.substr(of_count + 4).find_first_not_of(kDigits) == std::string_view::npos;
}

}  // namespace

std::vector<std::vector<CorpusSegment>> partition_segments(std::span<const CorpusSegment> files,
                                                           std::int64_t count) {
  std::vector<std::int64_t> sizes;
  std::vector<bool> is_cut;
  std::int64_t total = 0;
  for (const CorpusSegment& file : files) {
    sizes.push_back(corpus_input_size(file.path));
    if (sizes.back() < 0) {
      throw ConfigError("--partitions {}: {} is a pipe, which cannot be cut; give files", count,
                        file.path);
    }
    is_cut.push_back(can_be_cut(file, CorpusInput(file.path).compression()));
    total += sizes.back();
  }
  // total * number / count without the product, which may not fit.
  const auto border = [&](std::int64_t number) {
    return total / count * number + total % count * number / count;
  };
  std::vector<std::vector<CorpusSegment>> partitions(static_cast<std::size_t>(count));
  std::int64_t file_begin = 0;
  std::int64_t number = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::int64_t file_end = file_begin + sizes[i];
    for (std::int64_t at = 0; at < sizes[i];) {
      while (number + 1 < count && border(number + 1) <= file_begin + at) ++number;
      std::int64_t end = sizes[i];
      if (is_cut[i] && number + 1 < count && border(number + 1) < file_end) {
        end = next_cut(files[i], border(number + 1) - file_begin, sizes[i]);
      }
      CorpusSegment segment = files[i];
      if (at > 0 || end < sizes[i]) segment.range = {at, end};
      partitions[static_cast<std::size_t>(number)].push_back(std::move(segment));
      at = end;
    }
    file_begin = file_end;
  }
  return partitions;
}

std::string partition_name(std::string_view name, std::int64_t number, std::int64_t count) {
  return fmt::format("{}{}{:04}-of-{:04}", name, kPartitionMark, number, count);
}

PartitionRecord::PartitionRecord(std::string path, const std::string& settings,
                                 std::span<const CorpusSegment> segments)
    : path_(std::move(path)),
      settings_(settings),
      segments_(segments.begin(), segments.end()),
      work_(work_of(settings, segments)) {}

std::optional<PartitionCounts> PartitionRecord::read(std::span<const std::string> prefixes) const {
  if (!path_exists(path_)) return std::nullopt;
  try {
    const Json record = Json::parse(read_file(path_));
    if (record.at("work").get<std::string>() != work_) return std::nullopt;
    const PartitionCounts counts{
        .documents = record.at("documents").get<std::int64_t>(),
        .empty_documents = record.at("empty_documents").get<std::int64_t>(),
        .skipped_lines = record.at("skipped_lines").get<std::int64_t>(),
        .text_bytes = record.at("text_bytes").get<std::int64_t>()};
    for (const std::string& prefix : prefixes) {
      if (IndexedDataset(prefix).documents() != counts.documents) return std::nullopt;
    }
    return counts;
  } catch (const Json::exception&) {
    return std::nullopt;  // not a record of ours
  } catch (const Error&) {
    return std::nullopt;  // a dataset is gone or damaged: it is made again
  }
}

void PartitionRecord::write(const PartitionCounts& counts) const {
  if (work_of(settings_, segments_) != work_) {
    throw DataError("{}: changed while it was read; run the same command again",
                    segments_.front().path);
  }
  const Json record = {{"work", work_},
                       {"documents", counts.documents},
                       {"empty_documents", counts.empty_documents},
                       {"skipped_lines", counts.skipped_lines},
                       {"text_bytes", counts.text_bytes}};
  write_file_durably(path_, record.dump(2) + "\n");
}

void remove_partitions(const std::string& prefix, std::span<const std::string> outputs) {
  const auto directory = fs::path(prefix).has_parent_path() ? fs::path(prefix).parent_path() : ".";
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    const std::string name = path.stem().string();
    const auto is_of = [&](const std::string& output) {
      return is_partition_of(name, fs::path(output).filename().string());
    };
    const bool is_record = path.extension() == ".json" && is_of(prefix);
    const bool is_data = (path.extension() == ".bin" || path.extension() == ".idx") &&
                         std::any_of(outputs.begin(), outputs.end(), is_of);
    if (is_record || is_data) found.push_back(path);
  }
  // Records first: without its record a partition counts as unfinished.
  std::stable_partition(found.begin(), found.end(),
                        [](const fs::path& path) { return path.extension() == ".json"; });
  for (const auto& path : found) fs::remove(path, error);
}

}  // namespace phalanx
