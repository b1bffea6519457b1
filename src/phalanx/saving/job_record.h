#pragma once
// SAVE/.job: what a job has begun in its save directory. Launchers start the first attempt's
// command line again after a failure; what that attempt chose - which checkpoint it begins with,
// what it moves aside - holds for all of them. The record is on disk before anything in the
// directory changes, so an attempt that finds the record of its own job goes on with it, and one
// that finds none is the first to get that far, however often it was started.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/settings/train_config.h"

namespace phalanx {

inline constexpr const char* kJobRecordName = ".job";

// JobName::name of `phalanx launch` begins so.
inline constexpr const char* kLaunchJob = "phalanx launch ";

struct JobRecord {
  // RunConfig's `job`; empty: nobody starts this run again.
  std::vector<std::string> job;
  // The flags that say how a run begins, as they were given. A Slurm job may have several commands,
  // which begin differently.
  std::string flags;
  // The chosen checkpoint: its directory as an absolute path, and the digest of its manifest.
  // Empty: the run begins without one.
  std::string checkpoint;
  std::string manifest_digest;
  bool is_pretrained = false;  // the checkpoint is --pretrained-checkpoint's
  // The manifests that the job saves have this run id, and this start or a later one. 0: the job
  // has not begun.
  std::string run_id;
  std::int64_t start = 0;
  std::string aside;        // the directory in SAVE for what is moved aside; empty: none was needed
  bool is_settled = false;  // all of that is done: SAVE has only files of the job now

  bool has_begun() const { return start > 0; }
  std::string to_text() const;
  // DataError, which `where` opens, for anything but what to_text() writes.
  static JobRecord from_text(const std::string& text, const std::string& where = kJobRecordName);
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

// The record of a job that has not begun.
JobRecord new_job_record(const TrainConfig& config);

// The record in `save`; empty where there is none, and, with a warning, where it cannot be read.
std::optional<JobRecord> read_job_record(const std::filesystem::path& save);
// Writes it durably, unless it is already there. OutputError.
void write_job_record(const std::filesystem::path& save, const JobRecord& record);

// The record of an earlier attempt of this job with the same flags, or a new one where there is
// none. Called under the lock of --save.
JobRecord begun_by_this_job(const TrainConfig& config);

// Whether the newest checkpoint in --save, or of those that do not last, is one that the record's
// job has saved.
bool has_saved(const JobRecord& record, const RunConfig& run);

// Where the chosen checkpoint lies now: it may have been moved aside. InputMissingError where it is
// gone or has been replaced.
std::filesystem::path chosen_checkpoint(const JobRecord& record, const std::filesystem::path& save);

// The digest of a checkpoint's manifest. InputMissingError.
std::string digest_of_manifest(const std::filesystem::path& checkpoint);

}  // namespace phalanx
