// Tokenizers.

#include "phalanx/tokenizer/tokenizer.h"

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/cli/model_flags.h"
#include "phalanx/cli/text_input.h"
#include "phalanx/cli/tokenizer_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/library/answer.h"
#include "phalanx/library/handle.h"
#include "phalanx/library/request.h"
#include "phalanx/saving/run_inputs.h"

struct phalanx_tokenizer {
  std::unique_ptr<phalanx::Tokenizer> tokenizer;
};

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

// That of a checkpoint, from the copies of its files.
std::unique_ptr<Tokenizer> kept_tokenizer(const std::string& directory) {
  const CheckpointReader checkpoint = CheckpointReader::open(directory, Verify::kNo);
  TrainConfig config = checkpoint_config(checkpoint);
  use_kept_tokenizer(config, checkpoint);
  return make_tokenizer(config.tokenizer);
}

std::unique_ptr<Tokenizer> tokenizer_of(Request& request) {
  const auto load = request.word("load");
  const bool has_flags = request.has("flags");
  const std::vector<std::string> words = request.words();
  request.expect_no_other();
  if (load && has_flags) throw UsageError("load and flags: give one of them");
  if (load) return kept_tokenizer(*load);
  TokenizerFlags tokenizer_flags;
  FlagSet flags("a tokenizer", "A tokenizer.");
  tokenizer_flags.add_to(flags);
  try {
    flags.parse(words);
  } catch (const HelpRequested&) {
    throw UsageError("--help: a tokenizer has no help");
  }
  return tokenizer_flags.make();
}

Json json_of(const SpecialTokens& special) {
  Json json = Json::object();
  const std::pair<const char*, const std::optional<std::int32_t>*> rows[] = {
      {"unk", &special.unk},   {"cls", &special.cls}, {"sep", &special.sep},
      {"mask", &special.mask}, {"pad", &special.pad}, {"bos", &special.bos},
      {"eos", &special.eos},   {"eod", &special.eod}, {"decoder_start", &special.decoder_start}};
  for (const auto& [name, id] : rows) {
    if (*id) json[name] = **id;
  }
  if (!special.sentinels.empty()) json["sentinels"] = special.sentinels;
  return json;
}

Json lists_of_ids(const Tokenizer& tokenizer, Request& request) {
  const auto texts = request.texts("texts");
  const EncodeOptions options{.parse_special = request.is_set("parse_special_tokens"),
                              .add_special = request.is_set("add_special_tokens")};
  request.expect_no_other();
  if (!texts) throw UsageError("texts: give a list of texts");
  Json lists = Json::array();
  for (const std::string& text : *texts) {
    try {
      lists.push_back(tokenizer.encode(text, options));
    } catch (const DataError& error) {
      throw DataError("texts[{}]: {}", lists.size(), error.what());
    }
  }
  return {{"ids", std::move(lists)}};
}

Json texts_of_lists(const Tokenizer& tokenizer, Request& request) {
  const auto lists = request.ids("ids");
  const DecodeOptions options{.skip_special = request.is_set("skip_special_tokens")};
  request.expect_no_other();
  if (!lists) throw UsageError("ids: give a list of lists of token ids");
  Json texts = Json::array();
  for (const auto& ids : *lists) {
    try {
      texts.push_back(tokenizer.decode(ids, options));
    } catch (const DataError& error) {
      throw DataError("ids[{}]: {}", texts.size(), error.what());
    }
  }
  return {{"texts", std::move(texts)}};
}

phalanx_answer* use(const phalanx_tokenizer* tokenizer, const char* request,
                    Json (*work)(const Tokenizer& tokenizer, Request& request)) {
  return answer_of([&] {
    expect_handle(tokenizer, "the tokenizer");
    Request asked(request);
    return work(*tokenizer->tokenizer, asked).dump(-1, ' ', false, Json::error_handler_t::replace);
  });
}

}  // namespace
}  // namespace phalanx

extern "C" {

phalanx_answer* phalanx_tokenizer_open(const char* request, phalanx_tokenizer** tokenizer) {
  return phalanx::open_handle<phalanx_tokenizer>(tokenizer, "the tokenizer", [&](auto& opened) {
    phalanx::Request asked(request);
    opened.tokenizer = phalanx::tokenizer_of(asked);
    const phalanx::Json json = {
        {"vocab_size", opened.tokenizer->vocab_size()},
        {"type", opened.tokenizer->name()},
        {"special_tokens", phalanx::json_of(opened.tokenizer->special_tokens())}};
    return json.dump();
  });
}

phalanx_answer* phalanx_tokenize(phalanx_tokenizer* tokenizer, const char* request) {
  return phalanx::use(tokenizer, request, phalanx::lists_of_ids);
}

phalanx_answer* phalanx_detokenize(phalanx_tokenizer* tokenizer, const char* request) {
  return phalanx::use(tokenizer, request, phalanx::texts_of_lists);
}

void phalanx_tokenizer_close(phalanx_tokenizer* tokenizer) { delete tokenizer; }

}  // extern "C"
