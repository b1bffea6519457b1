#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/tokenizer_flags.h"
#include "phalanx/data/preprocess.h"

namespace phalanx {

int run_preprocess_data(const Arguments& arguments) {
  TokenizerFlags tokenizer_flags;
  PreprocessOptions options;
  std::vector<std::string> inputs;
  std::vector<std::string> keys;
  std::string format;
  FlagSet flags("phalanx preprocess-data",
                "Text or JSON lines into PREFIX_KEY_document.{bin,idx}.");
  flags.section("Input and output");
  flags.add({.name = "--input", .help = "Files", .value_name = "FILE", .required = true}, &inputs);
  flags.add({.name = "--output-prefix",
             .help = "PREFIX of the output",
             .value_name = "PREFIX",
             .required = true},
            &options.output_prefix);
  flags.add({.name = "--format", .help = "Default: by the file's name", .choices = "text jsonl"},
            &format);
  flags.add(
      {.name = "--json-keys", .help = "Keys of a JSON line (default: text)", .value_name = "KEY"},
      &keys);
  flags.add({.name = "--append-eod", .help = "End every document with end-of-document"},
            &options.append_eod);
  flags.add({.name = "--split-on-blank-lines",
             .help = "Text: a document ends at a blank line (default: with its file)"},
            &options.split_on_blank_lines);
  flags.add({.name = "--document-separator", .help = "Text: a document ends at this string"},
            &options.document_separator);
  flags.add(
      {.name = "--log-interval", .help = "Documents between progress lines", .range = at_least(1)},
      &options.progress_interval);
  flags.section("Tokenizer");
  tokenizer_flags.add_to(flags);
  flags.parse(arguments);
  if (format == "text") {
    options.format = CorpusFormat::kText;
  } else if (format == "jsonl") {
    options.format = CorpusFormat::kJsonLines;
  }
  options.inputs.assign(inputs.begin(), inputs.end());
  if (!keys.empty()) options.json_keys = keys;
  const auto tokenizer = tokenizer_flags.make();
  options.eod = tokenizer->end_of_document();
  options.vocabulary_size = tokenizer->vocab_size();
  options.progress = [](const PreprocessProgress& progress) {
    log_info("Processed {} documents ({} of {}).", progress.documents,
             format_bytes(progress.bytes_read), format_bytes(progress.bytes_total));
  };
  const auto result =
      preprocess(options, [&](std::string_view text) { return tokenizer->encode(text); });
  for (const auto& prefix : result.output_prefixes) log_info("{}.bin, {}.idx", prefix, prefix);
  log_info("{} documents, {} tokens", format_count(result.documents), format_count(result.tokens));
  return 0;
}

}  // namespace phalanx
