#include "phalanx/saving/job_record.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/log.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/strict_json.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/saving/non_persistent.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr std::size_t kLongestText = std::size_t{1} << 20;

constexpr std::array<std::string_view, 6> kFlagsOfTheBegin = {
    "--load",          "--ckpt-step", "--finetune",
    "--no-load-optim", "--overwrite", "--pretrained-checkpoint"};

std::string flags_of_the_begin(const TrainConfig& config) {
  Json flags = Json::object();
  for (const auto& [flag, value] : argument_values(config)) {
    if (std::ranges::find(kFlagsOfTheBegin, flag) != kFlagsOfTheBegin.end()) flags[flag] = value;
  }
  return flags.dump();
}

// Whether one of the launchers that have started this job again is in the record.
bool is_restart_of(const RunConfig& run, const JobRecord& record) {
  return std::ranges::any_of(run.job, [&](const JobName& name) {
    return name.restarts > 0 && std::ranges::find(record.job, name.name) != record.job.end();
  });
}

std::vector<std::string> names_of(const RunConfig& run) {
  std::vector<std::string> names;
  for (const JobName& name : run.job) names.push_back(name.name);
  return names;
}

bool is_chosen(const JobRecord& record, const fs::path& checkpoint) {
  try {
    return digest_of_manifest(checkpoint) == record.manifest_digest;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string digest_of_manifest(const fs::path& checkpoint) {
  return digest_to_text(xxh3(read_file(checkpoint / kManifestName)));
}

std::string JobRecord::to_text() const {
  const Json json = {{"version", kVersion},
                     {"job", job},
                     {"flags", flags},
                     {"checkpoint", checkpoint},
                     {"manifest", manifest_digest},
                     {"pretrained", is_pretrained},
                     {"run_id", run_id},
                     {"start", start},
                     {"aside", aside},
                     {"settled", is_settled}};
  return json.dump(2) + "\n";
}

JobRecord JobRecord::from_text(const std::string& text, const std::string& where) {
  const Json json = parse_strict_json(text, where);
  JsonObject object(json, where);
  object.integer("version", kVersion, kVersion);
  JobRecord record;
  record.job = object.texts("job", kLongestText);
  record.flags = object.text("flags", kLongestText);
  record.checkpoint = object.text("checkpoint", kLongestText);
  record.manifest_digest = object.text("manifest", kLongestText);
  record.is_pretrained = object.boolean("pretrained");
  record.run_id = object.text("run_id", kLongestText);
  record.start = object.integer("start", 0, std::numeric_limits<std::int64_t>::max());
  record.aside = object.text("aside", kLongestText);
  record.is_settled = object.boolean("settled");
  object.finish();
  if (!record.aside.empty() && !is_abandoned_name(record.aside)) {
    throw DataError("{}: 'aside' is {}, no directory for what is moved aside", where,
                    json_string(record.aside));
  }
  if (record.checkpoint.empty() != record.manifest_digest.empty()) {
    throw DataError("{}: 'checkpoint' and 'manifest' belong together, and one is empty", where);
  }
  if (record.has_begun() && record.run_id.empty()) {
    throw DataError("{}: has a 'start' and no 'run_id'", where);
  }
  return record;
}

JobRecord new_job_record(const TrainConfig& config) {
  JobRecord record;
  record.job = names_of(config.run);
  record.flags = flags_of_the_begin(config);
  return record;
}

std::optional<JobRecord> read_job_record(const fs::path& save) {
  const fs::path path = save / kJobRecordName;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return std::nullopt;
  try {
    return JobRecord::from_text(read_file(path), path.string());
  } catch (const Error& fault) {
    log_warning("{}; whose run lies there is judged without it", fault.what());
    return std::nullopt;
  }
}

void write_job_record(const fs::path& save, const JobRecord& record) {
  const fs::path path = save / kJobRecordName;
  const std::string text = record.to_text();
  std::error_code error;
  if (fs::is_regular_file(path, error) && read_file(path) == text) return;
  write_file_durably(path, text);
}

JobRecord begun_by_this_job(const TrainConfig& config) {
  JobRecord fresh = new_job_record(config);
  if (config.run.save.empty()) return fresh;
  auto found = read_job_record(config.run.save);
  if (!found || !found->has_begun() || !is_restart_of(config.run, *found) ||
      found->flags != fresh.flags) {
    return fresh;
  }
  found->job = std::move(fresh.job);
  return *std::move(found);
}

bool has_saved(const JobRecord& record, const RunConfig& run) {
  for (const fs::path& place : {fs::path(run.save), non_persistent_directory(run, run.save)}) {
    const std::vector<SavedCheckpoint> saved = saved_checkpoints(place);
    if (!saved.empty() && saved.back().run_id == record.run_id &&
        saved.back().start >= record.start) {
      return true;
    }
  }
  return false;
}

fs::path chosen_checkpoint(const JobRecord& record, const fs::path& save) {
  fs::path path = record.checkpoint;
  if (is_chosen(record, path)) return path;
  fs::path aside = absolute_path(save / record.aside / path.filename());
  if (!record.aside.empty() && is_chosen(record, aside)) return aside;
  throw InputMissingError(
      "the checkpoint {}, with which the first attempt of this job began, is gone or has become "
      "another, and nothing was saved since: start the job anew",
      path.string());
}

}  // namespace phalanx
