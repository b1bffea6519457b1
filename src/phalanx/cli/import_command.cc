#include <fmt/core.h>

#include <array>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/llmc_import.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/flags.h"
#include "phalanx/cli/verb.h"
#include "phalanx/data/indexed_dataset_writer.h"

namespace phalanx {

int run_import(const Arguments& arguments) {
  constexpr std::array<std::string_view, 1> kVerbs = {"llmc"};
  verb_of("phalanx import", kVerbs, arguments);
  std::string checkpoint;
  std::string tokens;
  std::string output;
  Flags flags("phalanx import llmc", "llm.c's model and token files into DIR.");
  flags.add("--checkpoint", checkpoint, "Model file, for example gpt2_124M.bin (required)");
  flags.add("--tokens", tokens, "Token file (required)");
  flags.add("--output", output, "DIR: gets DIR/checkpoint and DIR/tokens.{bin,idx} (required)");
  flags.parse({arguments.begin() + 1, arguments.end()});
  if (checkpoint.empty() || tokens.empty() || output.empty()) {
    throw UsageError("phalanx import llmc: give --checkpoint X.bin, --tokens Y.bin, --output DIR");
  }
  const auto written =
      import_llmc(checkpoint, tokens, output, [&](std::span<const std::uint16_t> ids) {
        IndexedDatasetWriter writer(output + "/tokens", TokenType::kU16);
        writer.add_sequence(std::vector<std::int32_t>(ids.begin(), ids.end()));
        writer.end_document();
        writer.commit();
      });
  log_info("{} and {}/tokens.bin, {}/tokens.idx", written.string(), output, output);
  return 0;
}

}  // namespace phalanx
