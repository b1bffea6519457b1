#include "phalanx/checkpoint/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_reader.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

VerifiedCheckpoint verify_one(const fs::path& directory, std::int64_t iteration) {
  VerifiedCheckpoint verified{.directory = directory, .iteration = iteration, .fault = {}};
  try {
    const CheckpointReader reader(directory, Verify::kYes);
    verified.iteration = reader.manifest().iteration;
    for (const auto& file : reader.manifest().files) verified.bytes += file.bytes;
    for (const auto& part : reader.manifest().parts) {
      verified.bytes += part.bytes + part.index_bytes;
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    verified.fault = error.what();
  }
  return verified;
}

}  // namespace

std::vector<VerifiedCheckpoint> verify_checkpoints(const fs::path& directory) {
  const fs::path path = directory.has_filename() ? directory : directory.parent_path();
  std::error_code error;
  if (fs::exists(path / kManifestName, error) ||
      iteration_of_directory_name(path.filename().string())) {
    const auto named = iteration_of_directory_name(path.filename().string());
    return {verify_one(path, named.value_or(0))};
  }
  const SaveContents contents = save_contents(path);
  std::vector<std::pair<std::int64_t, fs::path>> found;
  for (const auto& checkpoint : contents.complete) {
    found.emplace_back(checkpoint.iteration, checkpoint.directory);
  }
  for (const auto& broken : contents.broken) found.emplace_back(broken.iteration, broken.directory);
  if (found.empty()) throw InputMissingError("{}: no checkpoint is there", path.string());
  std::ranges::sort(found);
  std::vector<VerifiedCheckpoint> verified;
  for (const auto& [iteration, checkpoint] : found) {
    verified.push_back(verify_one(checkpoint, iteration));
  }
  return verified;
}

std::string to_json(const std::vector<VerifiedCheckpoint>& verified) {
  auto checkpoints = nlohmann::ordered_json::array();
  for (const auto& one : verified) {
    nlohmann::ordered_json item = {
        {"directory", one.directory.string()}, {"iteration", one.iteration}, {"bytes", one.bytes}};
    item["fault"] =
        one.fault.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(one.fault);
    checkpoints.push_back(std::move(item));
  }
  const nlohmann::ordered_json json = {{"checkpoints", std::move(checkpoints)}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string to_text(const std::vector<VerifiedCheckpoint>& verified) {
  std::string text;
  for (const auto& one : verified) {
    text += one.fault.empty() ? fmt::format("{}: whole, {} read\n", one.directory.string(),
                                            format_bytes(one.bytes))
                              : fmt::format("{}\n", one.fault);
  }
  return text;
}

}  // namespace phalanx
