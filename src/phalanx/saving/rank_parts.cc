#include "phalanx/saving/rank_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/part_writer.h"
#include "phalanx/checkpoint/stored_tensors.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kKey = message_key(MessageKind::kOther, 0, 0);
constexpr std::size_t kLongestText = 8192;

bool is_weight(const ContributedTensor& tensor) {
  return !tensor.info.name.starts_with(kOptimizerPrefix);
}

// Passes the elements of the boxes to the writer, box after box, row-major.
void write_boxes(const GlobalTensor& part, PartWriter& writer) {
  const std::int64_t size = size_of(part.local.dtype);
  for (const ParamBox& box : part.boxes) {
    // Rows that follow each other in memory are written at once.
    const std::int64_t rows_at_once = box.columns == part.row_length() ? box.rows : 1;
    for (std::int64_t row = 0; row < box.rows; row += rows_at_once) {
      writer.write({part.local.data() + part.local_element(box, row) * size,
                    static_cast<std::size_t>(rows_at_once * box.columns * size)});
    }
  }
}

}  // namespace

bool may_pass(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kCannotCreate:
    case ErrorCode::kIo:
    case ErrorCode::kInputMissing:
    case ErrorCode::kNotPermitted:
    case ErrorCode::kSystem:
      return true;
    default:
      return false;
  }
}

RankParts::RankParts(Rank& rank, bool with_optimizer, fs::path save, std::string epoch,
                     EngineMaker make)
    : rank_(rank),
      world_(*rank.ranks().world),
      save_(std::move(save)),
      epoch_(std::move(epoch)),
      make_(std::move(make)),
      rounds_weights_(with_optimizer && rank.parameters().has_main_parameters()),
      tensors_(contributed_tensors(rank, with_optimizer, Writers::kAll)) {}

// Only what is stored in 16 bits has a main parameter of another type.
bool RankParts::is_rounded(const ContributedTensor& tensor) const {
  return rounds_weights_ && is_weight(tensor) &&
         tensor.info.dtype != nn::full_precision(tensor.info.dtype);
}

std::int64_t RankParts::bytes() const {
  std::int64_t bytes = 0;
  for (const ContributedTensor& tensor : tensors_) {
    if (!is_rounded(tensor)) bytes += tensor.info.global_shape.count() * size_of(tensor.info.dtype);
  }
  return bytes;
}

void RankParts::write(const fs::path& directory, Manifest& manifest,
                      const std::function<void(std::string_view step)>& step) {
  step("parts");
  const Json where = {{"directory", directory.filename().string()}, {"epoch", epoch_}};
  for (int peer = 1; peer < world_.size(); ++peer) send(peer, where.dump());
  others_wait_ = false;
  manifest.epoch = epoch_;
  // Whatever becomes of its own part, the first rank hears of all others: they are done then.
  std::exception_ptr own_failure;
  try {
    manifest.parts.push_back(write_part(directory, epoch_));
  } catch (...) {
    own_failure = std::current_exception();
  }
  std::optional<std::string> failure;
  for (int peer = 1; peer < world_.size(); ++peer) {
    const Json answer = Json::parse(receive(peer));
    if (answer.contains("error")) {
      if (!failure) failure = fmt::format("rank {}: {}", peer, answer["error"].get<std::string>());
      continue;
    }
    manifest.parts.push_back({.rank = peer,
                              .bytes = answer.at("bytes"),
                              .index_bytes = answer.at("index_bytes"),
                              .index_xxh3 = answer.at("index_xxh3")});
  }
  if (own_failure) std::rethrow_exception(own_failure);
  if (failure) throw OutputError("{}", *failure);
  for (const ContributedTensor& tensor : tensors_) {
    const auto& info = tensor.info;
    manifest.tensors.push_back({.name = info.name,
                                .dtype = info.dtype,
                                .shape = info.global_shape,
                                .file = {},
                                .rounded_from = is_rounded(tensor)
                                                    ? std::string(kMainParamPrefix) + info.name
                                                    : std::string()});
  }
  step("proof");
  try {
    open_part_tensors(directory, manifest, Verify::kNo);
  } catch (const DataError& error) {
    throw OutputError("the parts are not the run: {}", error.what());
  }
}

void RankParts::give_up() {
  for (int peer = 1; others_wait_ && peer < world_.size(); ++peer) send(peer, "{}");
  others_wait_ = false;
}

void RankParts::serve() {
  const Json where = Json::parse(receive(0));
  if (!where.contains("directory")) return;
  Json answer;
  try {
    const Manifest::Part part = write_part(save_ / where.at("directory").get<std::string>(),
                                           where.at("epoch").get<std::string>());
    answer = {
        {"bytes", part.bytes}, {"index_bytes", part.index_bytes}, {"index_xxh3", part.index_xxh3}};
  } catch (const Error& error) {
    if (!may_pass(error)) throw;
    answer = {{"error", std::string(error.what()).substr(0, kLongestText / 2)}};
  }
  send(0, answer.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Manifest::Part RankParts::write_part(const fs::path& directory, const std::string& epoch) {
  std::vector<PartWriter::Piece> pieces;
  for (const ContributedTensor& tensor : tensors_) {
    if (is_rounded(tensor)) continue;
    for (const GlobalTensor& part : tensor.parts) {
      PartWriter::Piece& piece =
          pieces.emplace_back(PartWriter::Piece{tensor.info.name, tensor.info.dtype, {}});
      for (const ParamBox& box : part.boxes) piece.boxes.push_back(global_box(box));
    }
  }
  PartWriter writer(directory, epoch, world_.rank(), pieces, kept_file_options(), make_);
  for (const ContributedTensor& tensor : tensors_) {
    if (is_rounded(tensor)) continue;
    for (std::size_t i = 0; i < tensor.parts.size(); ++i) write_boxes(tensor.part(i), writer);
  }
  return writer.finish();
}

void RankParts::send(int peer, std::string_view text) {
  PHALANX_CHECK(text.size() <= kLongestText, "a text of {} bytes", text.size());
  Arena arena("parts", kLongestText + 2 * kArenaAlignment);
  const Tensor count = arena.allocate(DType::kI64, {1});
  count.as<std::int64_t>()[0] = std::ssize(text);
  world_.send(rank_.context(), count, peer, kKey).wait(rank_.context().queue);
  const Tensor bytes = arena.allocate(DType::kU8, {std::ssize(text)});
  std::memcpy(bytes.data(), text.data(), text.size());
  world_.send(rank_.context(), bytes, peer, kKey).wait(rank_.context().queue);
}

std::string RankParts::receive(int peer) {
  Arena arena("parts", kLongestText + 2 * kArenaAlignment);
  const Tensor count = arena.allocate(DType::kI64, {1});
  world_.receive(rank_.context(), count, peer, kKey).wait(rank_.context().queue);
  const Tensor bytes = arena.allocate(DType::kU8, {count.as<std::int64_t>()[0]});
  world_.receive(rank_.context(), bytes, peer, kKey).wait(rank_.context().queue);
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(bytes.bytes())};
}

}  // namespace phalanx
