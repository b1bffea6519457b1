#pragma once
// Reads a checkpoint back from the disk: not what memory still has of its files.

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace phalanx {

// Called after each block of some MiB, with the time that reading it took: it may wait. False: give
// up.
using ReadPace = std::function<bool(std::chrono::nanoseconds took)>;

enum class ReadBackOutcome {
  kWhole,
  kDamaged,
  kGivenUp,
};

// Compares every byte with the digests of the manifest and of the parts' indices, and proves that
// the files have all tensors. `fault` names file and place where it is damaged or cannot be read.
ReadBackOutcome read_back(const std::filesystem::path& checkpoint, const ReadPace& pace,
                          std::string& fault);

}  // namespace phalanx
