#include <fmt/core.h>

#include <array>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/diff.h"
#include "phalanx/checkpoint/digest.h"
#include "phalanx/checkpoint/info.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/verb.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {

int run_checkpoint(CommandIo& io, const Arguments& arguments) {
  constexpr std::array<Verb, 3> kVerbs = {{{"info", "what it holds and how it was made"},
                                           {"digest", "one digest for each global tensor"},
                                           {"diff", "the first tensor in which two differ"}}};
  const std::string verb = verb_of("phalanx checkpoint", kVerbs, arguments);
  std::vector<std::string> directories;
  bool json = false;
  const int count = verb == "diff" ? 2 : 1;
  FlagSet flags("phalanx checkpoint " + verb,
                "A save directory means its latest checkpoint; or name one iter_NNNNNNN.");
  flags.add_positional({.name = "DIR",
                        .help = "Checkpoint directory",
                        .values = &directories,
                        .least = count,
                        .most = count});
  flags.add({.name = "--json", .help = "One JSON document"}, &json);
  flags.parse({arguments.begin() + 1, arguments.end()});

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
