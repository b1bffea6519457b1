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

struct JobRecord {
  // The names of RunConfig's `job`; empty: nobody starts this run again.
  std::vector<std::string> job;
  // The flags that say how a run begins, as they were given: another command of the same job, which
  // Slurm's may have, begins otherwise.
  std::string flags;
  // The choice: a checkpoint's directory, as an absolute path, with the digest of its manifest.
  // Empty: the run begins with none.
  std::string checkpoint;
  std::string manifest_digest;
  bool is_pretrained = false;  // the checkpoint is --pretrained-checkpoint's
  // The manifests of what the job saves carry this run, and this start or a later one. 0: this is
  // not an attempt that goes on with its job.
  std::string run_id;
  std::int64_t start = 0;
  std::string aside;        // the directory in SAVE for what is moved aside; empty: none was needed
  bool is_settled = false;  // all of that is done: what lies in SAVE now is the job's own

  bool has_begun() const { return start > 0; }
  std::string to_text() const;
  // DataError.
  static JobRecord from_text(const std::string& text);
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

// Of a job that has not begun.
JobRecord new_job_record(const TrainConfig& config);

// What lies in `save`; empty where nothing does, or, with a warning, what cannot be read.
std::optional<JobRecord> read_job_record(const std::filesystem::path& save);
// Durably, where it is not there yet. OutputError.
void write_job_record(const std::filesystem::path& save, const JobRecord& record);

// Under the lock of --save: the record of an earlier attempt of this job with the same flags; a new
// one where there is none.
JobRecord begun_by_this_job(const TrainConfig& config);

// Whether the newest checkpoint in `save` is one that the record's job has saved.
bool has_saved(const JobRecord& record, const std::filesystem::path& save);

// Where the chosen checkpoint lies now: it may be among what was moved aside. InputMissingError
// where it is gone or has become another.
std::filesystem::path chosen_checkpoint(const JobRecord& record, const std::filesystem::path& save);

// The digest that a record keeps. InputMissingError.
std::string digest_of_manifest(const std::filesystem::path& checkpoint);

}  // namespace phalanx
