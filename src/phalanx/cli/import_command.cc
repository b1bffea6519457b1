#include <fmt/core.h>

#include <array>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/checkpoint/llmc_import.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/hugging_face_commands.h"
#include "phalanx/cli/verb.h"
#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {

namespace {

void import_llmc_files(const Arguments& arguments) {
  std::string checkpoint;
  std::string tokens;
  std::string output;
  FlagSet flags("phalanx import llmc", "llm.c's model and token files into DIR.");
  flags.add({.name = "--checkpoint",
             .help = "Model file, for example gpt2_124M.bin",
             .value_name = "FILE",
             .required = true},
            &checkpoint);
  flags.add({.name = "--tokens", .help = "Token file", .value_name = "FILE", .required = true},
            &tokens);
  flags.add({.name = "--output",
             .help = "DIR: gets DIR/checkpoint and DIR/tokens.{bin,idx}",
             .value_name = "DIR",
             .required = true},
            &output);
  flags.parse(arguments);
  const auto written =
      import_llmc(checkpoint, tokens, output, [&](std::span<const std::uint16_t> ids) {
        IndexedDatasetWriter writer(output + "/tokens", TokenType::kU16);
        writer.add_sequence(std::vector<std::int32_t>(ids.begin(), ids.end()));
        writer.end_document();
        writer.commit();
      });
  log_info("{} and {}/tokens.bin, {}/tokens.idx", written.string(), output, output);
}

}  // namespace

int run_import(CommandIo& io, const Arguments& arguments) {
  constexpr std::array<Verb, 2> kVerbs = {{{"llmc", "llm.c's model and token files"},
                                           {"hf", "a folder of Hugging Face's transformers"}}};
  const std::string verb = verb_of("phalanx import", kVerbs, arguments);
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (verb == "hf") return run_import_hugging_face(io, rest);
  import_llmc_files(rest);
  return 0;
}

}  // namespace phalanx
