#pragma once
// The partitions of preprocess-data: which part of the inputs each has, and which of them an
// interrupted run has completed. A partition is a dataset per key beside the output,
// `{output}.partition-0001-of-0004.{bin,idx}`, and last of all a record,
// `{prefix}.partition-0001-of-0004.json`, which says what it was made of and how.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/corpus/batch_reader.h"

namespace phalanx {

// Cuts files into `count` runs of whole documents, in order, about equal in bytes; some may be
// empty. Compressed files are not cut. IoError, InputMissingError as of CorpusInput.
std::vector<std::vector<CorpusSegment>> partition_segments(std::span<const CorpusSegment> files,
                                                           std::int64_t count);

// What a partition holds.
struct PartitionCounts {
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;
  std::int64_t skipped_lines = 0;
  std::int64_t text_bytes = 0;
};

// "NAME.partition-0001-of-0004".
std::string partition_name(std::string_view name, std::int64_t number, std::int64_t count);

class PartitionRecord {
 public:
  // `settings`: everything besides the inputs that the output depends on. The sizes and
  // modification times of the inputs are read now.
  PartitionRecord(std::string path, const std::string& settings,
                  std::span<const CorpusSegment> segments);

  // The counts, if there is a record of the same work and its datasets exist.
  std::optional<PartitionCounts> read(std::span<const std::string> prefixes) const;
  // DataError if an input has changed since the constructor ran.
  void write(const PartitionCounts& counts) const;

 private:
  std::string path_;
  std::string settings_;
  std::vector<CorpusSegment> segments_;
  std::string work_;  // the part of the record that is compared
};

// Removes the partitions of these outputs, whatever their number.
void remove_partitions(const std::string& prefix, std::span<const std::string> outputs);

}  // namespace phalanx
