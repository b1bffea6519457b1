#include "phalanx/train/replica_check.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/train/rank_texts.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

// Of the weights as passes read them.
std::int64_t digest_of(Rank& rank, ParamId id) {
  constexpr std::int64_t kPieceBytes = 32768;
  const Tensor& weight = rank.parameters().weight(id);
  const Tensor flat = weight.reshape({weight.count()});
  const std::int64_t most = kPieceBytes / size_of(weight.dtype);
  std::vector<std::byte> buffer(kPieceBytes);
  Xxh3 hash;
  for (std::int64_t begin = 0; begin < flat.count(); begin += most) {
    const Tensor piece = flat.slice(0, begin, std::min(most, flat.count() - begin));
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(piece.bytes()));
    rank.context().backend.read_back(rank.context().stream, piece, bytes);
    hash.update(bytes);
  }
  return static_cast<std::int64_t>(hash.digest());
}

// What most replicas have; of as many, the first one's.
std::int64_t usual(const std::vector<std::int64_t>& digests) {
  return *std::ranges::max_element(
      digests, {}, [&](std::int64_t digest) { return std::ranges::count(digests, digest); });
}

// A parameter in which this rank differs from most data-parallel replicas, by the digests of all;
// empty where there is none.
std::string different_from_replicas(Rank& rank, const std::vector<std::int64_t>& mine) {
  Communicator* replicas = rank.ranks().data.get();
  if (replicas == nullptr) return {};
  const auto whole = static_cast<std::int64_t>(xxh3(std::as_bytes(std::span(mine))));
  const auto all = gather_numbers(*replicas, rank.context(), whole);
  if (std::ranges::count(all, whole) == std::ssize(all)) return {};
  std::string different;
  for (ParamId id = 0; id < rank.table().size(); ++id) {
    const std::int64_t own = mine[static_cast<std::size_t>(id)];
    const auto digests = gather_numbers(*replicas, rank.context(), own);
    if (different.empty() && own != usual(digests)) different = rank.table()[id].name;
  }
  return different;
}

// Likewise from the other holders of a shared parameter.
std::string different_from_holders(Rank& rank, const std::vector<std::int64_t>& mine) {
  std::string different;
  for (const SharedSum& sum : rank.gradients().shared()) {
    Communicator* holders = rank.holders_of(sum);
    if (holders == nullptr) continue;
    const std::int64_t own = mine[static_cast<std::size_t>(sum.id)];
    const auto digests = gather_numbers(*holders, rank.context(), own);
    if (different.empty() && own != usual(digests)) different = rank.table()[sum.id].name;
  }
  return different;
}

}  // namespace

void check_replicas(Rank& rank, const std::vector<RankPlace>& places, std::int64_t iteration) {
  rank.finish_gather();
  std::vector<std::int64_t> mine;
  for (ParamId id = 0; id < rank.table().size(); ++id) mine.push_back(digest_of(rank, id));
  std::string different = different_from_replicas(rank, mine);
  const std::string shared = different_from_holders(rank, mine);
  if (different.empty()) different = shared;
  if (rank.largest_of_all(different.empty() ? 0 : 1) == 0) return;
  const std::string text =
      Json{{"rank", rank_text(rank.ranks(), places)}, {"different", different}}.dump();
  for (const std::string& other : gather_texts(*rank.ranks().world, rank.context(), text)) {
    const Json json = Json::parse(other);
    if (json.at("different").get<std::string>().empty()) continue;
    throw ErrorOf<ErrorCode::kTemporary>(
        "after iteration {}: {} has other bits of {} than other ranks that hold it "
        "(--check-weight-hash-across-dp-replicas-interval): memory or a processor of that machine "
        "is suspicious. Nothing was saved since: start again from the last checkpoint, without "
        "that machine if it happens again",
        iteration, json.at("rank").get<std::string>(), json.at("different").get<std::string>());
  }
}

}  // namespace phalanx
