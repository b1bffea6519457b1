#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/conversations_info.h"
#include "phalanx/cli/output_files.h"
#include "phalanx/cli/tokenizer_flags.h"
#include "phalanx/cli/verb.h"
#include "phalanx/corpus/dataset_info.h"
#include "phalanx/corpus/dataset_merge.h"
#include "phalanx/data/block_digests.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

IndexedDataset open_dataset(const std::string& prefix) { return IndexedDataset(prefix); }

// The prefix of a dataset: a word of the command, or the value of --data-path.
class DataPath {
 public:
  void add_to(FlagSet& flags) {
    flags.add_positional({.name = "PREFIX",
                          .help = "Prefix of the .bin and .idx files",
                          .values = &words_,
                          .least = 0,
                          .most = 1});
    flags.add({.name = "--data-path",
               .help = "Prefix of the .bin and .idx files, in the place of the word",
               .value_name = "PREFIX"},
              &prefix_);
  }
  // To be called while the flags are checked.
  void complete() {
    if (words_.empty() && prefix_.empty()) throw UsageError("PREFIX or --data-path must be given");
    if (words_.empty()) return;
    if (!prefix_.empty()) {
      throw UsageError("{} and --data-path {}: give the prefix once", words_[0], prefix_);
    }
    prefix_ = words_[0];
  }
  const std::string& prefix() const { return prefix_; }

 private:
  std::vector<std::string> words_;
  std::string prefix_;
};

Json json_of(const DatasetInfo& info) {
  return {{"sequences", info.sequences},
          {"documents", info.documents},
          {"empty_documents", info.empty_documents},
          {"tokens", info.tokens},
          {"dtype", name_of(info.type)},
          {"bin_bytes", info.bin_bytes},
          {"idx_bytes", info.idx_bytes},
          {"shortest_sequence", info.shortest_sequence},
          {"longest_sequence", info.longest_sequence},
          {"fewest_sequences", info.fewest_sequences},
          {"most_sequences", info.most_sequences}};
}

// One JSON document, or a line for each of its members.
void print(CommandIo& io, const Json& document, bool as_json) {
  if (as_json) {
    io.print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  for (const auto& [key, value] : document.items()) {
    const bool is_count = value.is_number_integer();
    io.print("  {:<18} {:>16}\n", key,
             is_count            ? format_count(value.get<std::int64_t>())
             : value.is_string() ? value.get<std::string>()
                                 : value.dump());
  }
}

int info(CommandIo& io, const Arguments& arguments) {
  DataPath path;
  bool json = false;
  ConversationsInfo conversations;
  FlagSet flags("phalanx dataset info",
                "What is in a dataset, or with --sft in a file of conversations.");
  path.add_to(flags);
  flags.add({.name = "--json", .help = "One JSON document"}, &json);
  conversations.add_to(flags);
  flags.parse(arguments, [&] { path.complete(); });
  conversations.check(flags);
  print(io,
        conversations.is_wanted() ? conversations.of(path.prefix())
                                  : json_of(dataset_info(open_dataset(path.prefix()))),
        json);
  return 0;
}

// The digests of the .bin's blocks. If the cache has digests of the same file, they must be equal.
BlockDigests checked_block_digests(const std::string& path, const std::string& cache_path) {
  const FileIdentity identity = identity_of_file(path);
  BlockDigests digests = block_digests_of(path);
  if (cache_path.empty()) return digests;
  const IndexCache cache(cache_path);
  const auto before = find_block_digests(cache, identity);
  if (!before) {
    keep_block_digests(cache, identity, digests);
    return digests;
  }
  if (const auto block = differing_block(*before, digests)) {
    throw DataError(
        "{}: {} are not what they were when {} was filled, though the file was not written since: "
        "its disk may have failed; put a good copy in its place",
        path, byte_range(digests, *block), cache_path);
  }
  return digests;
}

int check(CommandIo& io, const Arguments& arguments) {
  DataPath path;
  std::string cache;
  TokenizerFlags tokenizer_flags;
  bool json = false;
  FlagSet flags("phalanx dataset check",
                "Reads every token, and checks that it is an id of the tokenizer, or below "
                "--vocab-size.");
  path.add_to(flags);
  flags.add(
      {.name = "--data-cache-path",
       .help = "Directory that keeps the digests of the .bin's blocks: compared, or put there",
       .value_name = "DIR"},
      &cache);
  flags.add({.name = "--json", .help = "One JSON document"}, &json);
  flags.section("Tokenizer: ids must be of it");
  tokenizer_flags.add_to(flags);
  flags.parse(arguments, [&] { path.complete(); });
  // --vocab-size alone is a number.
  const std::int64_t vocabulary = TokenizerFlags::names_tokenizer(flags)
                                      ? tokenizer_flags.make()->vocab_size()
                                      : tokenizer_flags.options().vocab_size;
  // Opening has checked every length, offset and document boundary against the files.
  const IndexedDataset data = open_dataset(path.prefix());
  check_layout(data);
  const BlockDigests digests = checked_block_digests(bin_path(path.prefix()), cache);
  if (vocabulary > 0) check_token_ids(data, vocabulary);
  const TokenIdRange range = token_id_range(data);
  if (json) {
    print(io,
          {{"tokens", data.tokens()},
           {"sequences", data.sequences()},
           {"documents", data.documents()},
           {"smallest_id", range.smallest},
           {"largest_id", range.largest},
           {"vocab_size", vocabulary},
           {"block_bytes", digests.block_bytes},
           {"blocks", digests.blocks()},
           {"xxh3", digest_to_text(digests.digest())}},
          json);
  } else {
    io.print("{} tokens, ids {} to {}{}\n", format_count(data.tokens()), range.smallest,
             range.largest,
             vocabulary > 0 ? fmt::format(" of a vocabulary of {}", format_count(vocabulary))
                            : ", not compared with a vocabulary: give a tokenizer's flags");
    io.print("digest {} of {} blocks of {}\n", digest_to_text(digests.digest()), digests.blocks(),
             format_bytes(digests.block_bytes));
  }
  return 0;
}

// The first tokens of a sequence, and their text where there is a tokenizer.
Json json_of_sequence(const IndexedDataset& data, std::int64_t sequence, std::int64_t most_tokens,
                      const Tokenizer* tokenizer) {
  std::vector<std::int32_t> ids(
      static_cast<std::size_t>(std::min<std::int64_t>(most_tokens, data.length(sequence))));
  data.get(sequence, 0, ids);
  Json json = {{"tokens", data.length(sequence)}, {"ids", ids}};
  if (tokenizer != nullptr) json["text"] = tokenizer->decode(ids);
  return json;
}

void print_documents(CommandIo& io, const Json& documents) {
  for (const Json& document : documents) {
    io.print("document {}\n", document.at("document").get<std::int64_t>());
    for (const Json& sequence : document.at("sequences")) {
      const auto text = sequence.find("text");
      io.print("  {}\n",
               text != sequence.end() ? text->get<std::string>() : sequence.at("ids").dump());
    }
  }
}

int head(CommandIo& io, const Arguments& arguments) {
  DataPath path;
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t sequences = 64;
  std::int64_t tokens = 64;
  bool json = false;
  TokenizerFlags tokenizer_flags;
  FlagSet flags("phalanx dataset head", "The first tokens of the sequences of some documents.");
  path.add_to(flags);
  flags.add({.name = "--first", .help = "The first document", .range = at_least(0)}, &first);
  flags.add({.name = "--count", .help = "Documents", .range = at_least(0)}, &count);
  flags.add({.name = "--sequences",
             .help = "Sequences of each document at most: the sentences of a _sentence dataset",
             .range = at_least(0)},
            &sequences);
  flags.add({.name = "--tokens", .help = "Tokens of each sequence at most", .range = at_least(0)},
            &tokens);
  flags.add({.name = "--json", .help = "One JSON document"}, &json);
  flags.section("Tokenizer: shows text instead of ids");
  tokenizer_flags.add_to(flags);
  flags.parse(arguments, [&] { path.complete(); });
  const IndexedDataset data = open_dataset(path.prefix());
  const bool as_text = TokenizerFlags::names_tokenizer(flags) || flags.given("--vocab-size");
  const auto tokenizer = as_text ? tokenizer_flags.make() : nullptr;
  if (first > data.documents()) {
    throw ConfigError("--first {}: there are {} documents", first, data.documents());
  }
  Json documents = Json::array();
  for (std::int64_t d = first; d < first + std::min(count, data.documents() - first); ++d) {
    const std::int64_t begin = data.document_begin(d);
    const std::int64_t end = data.document_begin(d + 1);
    Json shown = Json::array();
    for (std::int64_t i = begin; i < begin + std::min(sequences, end - begin); ++i) {
      shown.push_back(json_of_sequence(data, i, tokens, tokenizer.get()));
    }
    documents.push_back(
        {{"document", d}, {"sequence_count", end - begin}, {"sequences", std::move(shown)}});
  }
  if (json) {
    print(io, {{"documents", documents}}, true);
  } else {
    print_documents(io, documents);
  }
  return 0;
}

int merge(CommandIo& io, const Arguments& arguments) {
  std::vector<std::string> inputs;
  std::string output;
  bool overwrite = false;
  bool json = false;
  FlagSet flags("phalanx dataset merge", "Several datasets, one after the other, as one.");
  flags.add({.name = "--input",
             .help = "Prefixes; a directory stands for all datasets in it, sorted by name",
             .value_name = "PREFIX",
             .required = true},
            &inputs);
  flags.add({.name = "--output-prefix",
             .help = "Prefix of the new dataset",
             .value_name = "PREFIX",
             .required = true},
            &output);
  flags.add({.name = "--overwrite", .help = "Replace a dataset that is there"}, &overwrite);
  flags.add({.name = "--json", .help = "One JSON document, as dataset info"}, &json);
  flags.parse(arguments);
  check_output("--output-prefix", bin_path(output), overwrite);
  check_output("--output-prefix", idx_path(output), overwrite);
  std::vector<std::string> prefixes;
  for (const std::string& input : inputs) {
    std::error_code ignored;
    if (std::filesystem::is_directory(input, ignored)) {
      const auto found = datasets_in(input);
      prefixes.insert(prefixes.end(), found.begin(), found.end());
    } else {
      prefixes.push_back(input);
    }
  }
  merge_datasets(prefixes, output);
  log_info("{}.bin, {}.idx", output, output);
  if (json) print(io, json_of(dataset_info(open_dataset(output))), json);
  return 0;
}

}  // namespace

int run_dataset(CommandIo& io, const Arguments& arguments) {
  constexpr std::array<Verb, 5> kVerbs = {{{"info", "how many sequences, documents and tokens"},
                                           {"check", "whether every token is in range"},
                                           {"head", "the first tokens"},
                                           {"merge", "several datasets as one"},
                                           {"samples", "what the model will see, in order"}}};
  const std::string verb = verb_of("phalanx dataset", kVerbs, arguments);
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (verb == "info") return info(io, rest);
  if (verb == "check") return check(io, rest);
  if (verb == "head") return head(io, rest);
  if (verb == "merge") return merge(io, rest);
  return run_dataset_samples(io, rest);
}

}  // namespace phalanx
