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
  Flags flags("phalanx preprocess-data", "Text or JSON lines into PREFIX_KEY_document.{bin,idx}.");
  flags.section("Input and output");
  flags.add("--input", inputs, "Files (required)");
  flags.add("--output-prefix", options.output_prefix, "PREFIX of the output (required)");
  flags.add("--format", format, "text or jsonl (default: by the file's name)");
  flags.add("--json-keys", keys, "Keys of a JSON line (default: text)");
  flags.add_switch("--append-eod", options.append_eod, "End every document with end-of-document");
  flags.add_switch("--split-on-blank-lines", options.split_on_blank_lines,
                   "Text: a document ends at a blank line (default: with its file)");
  flags.add("--document-separator", options.document_separator,
            "Text: a document ends at this string");
  flags.add("--log-interval", options.progress_interval, "Documents between progress lines");
  flags.section("Tokenizer");
  tokenizer_flags.add_to(flags);
  flags.parse(arguments);
  if (inputs.empty() || options.output_prefix.empty()) {
    throw UsageError("phalanx preprocess-data: give --input FILE... and --output-prefix PREFIX");
  }
  if (format == "text") {
    options.format = CorpusFormat::kText;
  } else if (format == "jsonl") {
    options.format = CorpusFormat::kJsonLines;
  } else if (!format.empty()) {
    throw ConfigError("--format {}: choose text or jsonl", format);
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
