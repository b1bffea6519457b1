#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/consolidate.h"
#include "phalanx/checkpoint/diff.h"
#include "phalanx/checkpoint/digest.h"
#include "phalanx/checkpoint/directory_lock.h"
#include "phalanx/checkpoint/info.h"
#include "phalanx/checkpoint/verify.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/verb.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// The checkpoint's own save directory, or the one that is named.
int run_consolidate(CommandIo& io, const std::string& directory, const std::string& output) {
  const auto reader = CheckpointReader::open(directory);
  const fs::path& from = reader.directory();
  const std::string name = iteration_directory_name(reader.manifest().iteration);
  if (output.empty() && reader.manifest().parts.empty()) {
    io.put(fmt::format("{}: has whole tensors already\n", from.string()));
    return 0;
  }
  if (output.empty() && from.filename() != name) {
    throw ConfigError("{}: is not {} of a save directory: give --output", from.string(), name);
  }
  const fs::path save = output.empty() ? absolute_path(from).parent_path() : fs::path(output);
  const std::string_view flag = output.empty() ? "DIR" : "--output";
  const DirectoryLock lock(save, flag);
  std::error_code error;
  if (!output.empty() && fs::exists(fs::symlink_status(save / name, error))) {
    throw OutputError("--output {}: has a {} already: name another directory", output, name);
  }
  const fs::path made = consolidate(reader, save);
  io.put(fmt::format("{}: whole tensors of the parts of {} ranks\n", made.string(),
                     reader.manifest().parts.size()));
  return 0;
}

}  // namespace

int run_checkpoint(CommandIo& io, const Arguments& arguments) {
  constexpr std::array<Verb, 5> kVerbs = {
      {{"info", "what it holds and how it was made"},
       {"digest", "one digest for each global tensor"},
       {"diff", "the first tensor in which two differ"},
       {"verify", "reads every byte and compares it with its digest"},
       {"consolidate", "whole tensors of the parts that each rank wrote"}}};
  const std::string verb = verb_of("phalanx checkpoint", kVerbs, arguments);
  std::vector<std::string> directories;
  bool json = false;
  std::string output;
  const int count = verb == "diff" ? 2 : 1;
  FlagSet flags("phalanx checkpoint " + verb,
                verb == "verify"
                    ? "A save directory means all its checkpoints; or name one iter_NNNNNNN."
                    : "A save directory means its latest checkpoint; or name one iter_NNNNNNN.");
  flags.add_positional({.name = "DIR",
                        .help = "Checkpoint directory",
                        .values = &directories,
                        .least = count,
                        .most = count});
  if (verb == "consolidate") {
    flags.add({.name = "--output",
               .help = "Save directory for the result, instead of replacing the checkpoint",
               .value_name = "DIR"},
              &output);
  } else {
    flags.add({.name = "--json", .help = "One JSON document"}, &json);
  }
  flags.parse({arguments.begin() + 1, arguments.end()});

  if (verb == "consolidate") return run_consolidate(io, directories[0], output);
  if (verb == "verify") {
    const auto verified = verify_checkpoints(directories[0]);
    io.put(json ? to_json(verified) : to_text(verified));
    const auto damaged = std::ranges::count_if(
        verified, [](const VerifiedCheckpoint& one) { return !one.fault.empty(); });
    if (damaged == 0) return 0;
    throw DataError("{}: {} of {} checkpoints cannot be read", directories[0], damaged,
                    verified.size());
  }
  // What a manifest says needs no pass over the tensors.
  const auto first =
      CheckpointReader::open(directories[0], verb == "info" ? Verify::kNo : Verify::kYes);
  if (verb == "info") {
    io.put(json ? info_json(first) : info_text(first));
    return 0;
  }
  if (verb == "digest") {
    const CheckpointDigest digest = digest_checkpoint(first);
    io.put(json ? to_json(digest) : to_text(digest));
    return 0;
  }
  const auto second = CheckpointReader::open(directories[1]);
  const CheckpointDifference difference = diff_checkpoints(first, second);
  io.put(json ? to_json(difference) : to_text(difference));
  // As diff(1), 1 means that they differ.
  return difference.tensors_equal() ? 0 : 1;
}

}  // namespace phalanx
