#include "phalanx/chat_data/conversation_lines.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/threads.h"

namespace phalanx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kChunkBytes = 128 << 10;
constexpr std::size_t kChunksOfAThread = 4;  // between two polls
constexpr std::chrono::seconds kBetweenLines{10};

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Takes the first line off, without its line end.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

void refuse_compressed(const std::string& file, std::string_view text) {
  constexpr std::string_view kGzip = "\x1f\x8b";
  constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd";
  if (!text.starts_with(kGzip) && !text.starts_with(kZstd)) return;
  throw DataError("{}: it is compressed: unpack it with {}", file,
                  text.starts_with(kGzip) ? "gzip -d" : "zstd -d");
}

std::string_view name_of(ChatLoss loss) {
  switch (loss) {
    case ChatLoss::kAssistant:
      return "assistant";
    case ChatLoss::kLast:
      return "last";
    case ChatLoss::kAll:
      return "all";
    case ChatLoss::kCompletion:
      return "completion";
  }
  return {};
}

}  // namespace

ConversationLines::ConversationLines(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                     const ConversationOptions& options)
    : file_(file.string()),
      options_(options),
      mapped_(file),
      rest_(text_of(mapped_)),
      special_texts_(tokenizer),
      encoder_(tokenizer,
               ChatTemplate::parse(options.chat_template.text, options.chat_template.name),
               options.settings),
      reader_(file_, {.takes_incomplete = options.drops_incomplete}) {
  refuse_compressed(file_, rest_);
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  // The kind of the first line is that of all.
  std::string_view text = rest_;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (is_blank(line)) continue;
    reader_.read(line, number);
    return;
  }
  throw DataError("{}: it has no conversations", file_);
}

void ConversationLines::add_line(std::string_view line, std::int64_t number, ChatEncoder& encoder,
                                 EncodedLines& to) const {
  if (is_blank(line)) return;
  ConversationReader reader = reader_;
  const Conversation conversation = reader.read(line, static_cast<std::size_t>(number));
  if (conversation.is_incomplete) {
    ++to.incomplete;
    return;
  }
  const auto place = [&] { return fmt::format("{}:{}", file_, number); };
  if (!options_.parses_special_tokens) {
    if (const auto found = encoder.place_of_special_token(conversation, special_texts_)) {
      throw DataError(
          "{}: {} has the text of a special token in it, with which a message could end "
          "its turn: take it out, or give --sft-special-tokens-in-content parse",
          place(), *found);
    }
  }
  EncodedChat encoded;
  try {
    encoded = encoder.encode(conversation);
  } catch (const DataError& error) {
    throw DataError("{}: {}", place(), error.what());
  } catch (const ConfigError& error) {
    throw ConfigError("{}: {}", place(), error.what());
  }
  if (!encoded.mask) {
    throw ConfigError(
        "{}: --sft-loss {}: what is trained is not known: {}; or give another --sft-loss: last "
        "needs only the last answer, all none",
        place(), name_of(options_.settings.loss), encoded.why);
  }
  to.keys.add(encoded.keys);
  to.conversations.push_back({.line = number, .tokens = encoded.ids.size()});
  to.ids.insert(to.ids.end(), encoded.ids.begin(), encoded.ids.end());
  to.trained.insert(to.trained.end(), encoded.mask->begin(), encoded.mask->end());
}

void ConversationLines::encode_chunk(Chunk& chunk, ChatEncoder& encoder) const {
  for (std::string_view text = chunk.text; !text.empty();) {
    const std::string_view line = take_line(text);
    ++chunk.lines;
    try {
      add_line(line, chunk.lines, encoder, chunk.encoded);
    } catch (const Error&) {
      chunk.bad_line = line;
      return;
    }
  }
}

ConversationLines::Chunk ConversationLines::next_chunk() {
  std::size_t bytes = rest_.find('\n', std::min(kChunkBytes, rest_.size()));
  bytes = bytes == std::string_view::npos ? rest_.size() : bytes + 1;
  Chunk chunk;
  chunk.text = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return chunk;
}

void ConversationLines::encode(const std::function<void(const EncodedLines&)>& take,
                               const std::function<void()>& poll) {
  const std::size_t most = kChunksOfAThread * static_cast<std::size_t>(options_.threads);
  std::vector<ChatEncoder> encoders(most, encoder_);
  const std::size_t bytes = rest_.size();
  std::int64_t lines = 0;
  std::int64_t conversations = 0;
  auto next_line = Clock::now() + kBetweenLines;
  while (!rest_.empty()) {
    std::vector<Chunk> chunks;
    while (chunks.size() < most && !rest_.empty()) chunks.push_back(next_chunk());
    run_parallel(chunks.size(), options_.threads,
                 [&](std::size_t i) { encode_chunk(chunks[i], encoders[i]); });
    for (Chunk& chunk : chunks) {
      // Again, because only now its number is known; it throws.
      if (chunk.bad_line) {
        add_line(*chunk.bad_line, lines + chunk.lines, encoder_, chunk.encoded);
        PHALANX_CHECK(false, "{}: line {} is right at the second time", file_, lines + chunk.lines);
      }
      for (auto& conversation : chunk.encoded.conversations) conversation.line += lines;
      lines += chunk.lines;
      conversations += std::ssize(chunk.encoded.conversations);
      take(chunk.encoded);
    }
    if (poll) poll();
    if (Clock::now() < next_line) continue;
    log_info("> {}: {} conversations so far, {} % of the file", file_, format_count(conversations),
             100 * (bytes - rest_.size()) / bytes);
    next_line = Clock::now() + kBetweenLines;
  }
}

}  // namespace phalanx
