#pragma once
// `phalanx checkpoint verify`: reads every byte of checkpoints and compares it with its digest.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace phalanx {

struct VerifiedCheckpoint {
  std::filesystem::path directory;
  std::int64_t iteration = 0;
  std::int64_t bytes = 0;  // of its files
  std::string fault;       // names file and place; empty: it is whole
};

// The checkpoint `directory`, or all of a save directory, the oldest first. InputMissingError if
// none is there.
std::vector<VerifiedCheckpoint> verify_checkpoints(const std::filesystem::path& directory);

// {"checkpoints": [{"directory": str, "iteration": int, "bytes": int, "fault": str or null}]} and a
// newline.
std::string to_json(const std::vector<VerifiedCheckpoint>& verified);
// A line for each.
std::string to_text(const std::vector<VerifiedCheckpoint>& verified);

}  // namespace phalanx
