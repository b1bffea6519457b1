#include "phalanx/watch/replica_check.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/rank/gather.h"
#include "phalanx/rank/rank_texts.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

// Compares a parameter of several ranks by the bits of the weights that passes read.
struct Digest {
  ParamId id = 0;
  std::int64_t value = 0;
};

void add_to(Xxh3& hash, Rank& rank, const Tensor& flat) {
  constexpr std::int64_t kPieceBytes = 32768;
  rank.host_pieces().visit(flat, kPieceBytes,
                           [&](std::span<const std::byte> bytes) { hash.update(bytes); });
}

// For cut weights.
Tensor weight_of(Rank& rank, const Segment& segment) {
  const ParameterStore& parameters = rank.parameters();
  const TileFile* file = parameters.weight_file();
  if (file == nullptr || !file->has(segment.tile)) return parameters.weight(segment);
  const StateLayout& states = parameters.states();
  const Tensor tile = parameters.staging()->read_once(rank.context(), *file, segment.tile,
                                                      states.tile(segment).local.count);
  return part_of(tile, states, segment);
}

// The digest of a weight's elements from `begin` on, as far as this rank keeps them.
Digest digest_of(Rank& rank, ParamId id, std::int64_t begin = 0) {
  const ParameterStore& parameters = rank.parameters();
  const Tensor& whole = parameters.weight(id);
  Xxh3 hash;
  if (whole) {
    add_to(hash, rank, whole.reshape({whole.count()}).slice(0, begin, whole.count() - begin));
  } else {
    for (const Segment& segment : parameters.states().segments()) {
      const std::int64_t skipped = std::max<std::int64_t>(begin - segment.begin, 0);
      if (segment.id != id || skipped >= segment.count) continue;
      const Tensor part = weight_of(rank, segment);
      add_to(hash, rank, part.slice(0, skipped, segment.count - skipped));
    }
  }
  return {id, static_cast<std::int64_t>(hash.digest())};
}

// The most frequent value; among equals the first.
std::int64_t usual(const std::vector<std::int64_t>& digests) {
  return *std::ranges::max_element(
      digests, {}, [&](std::int64_t digest) { return std::ranges::count(digests, digest); });
}

// A parameter in which this rank differs from most ranks of the group; empty if none. `group` is
// null if no other rank has these parameters.
std::string different_in(Rank& rank, Communicator* group, const std::vector<Digest>& mine) {
  group = rank.ranks().on_host(group);
  if (group == nullptr) return {};
  std::vector<std::int64_t> values;
  for (const Digest& digest : mine) values.push_back(digest.value);
  const auto whole = static_cast<std::int64_t>(xxh3(std::as_bytes(std::span(values))));
  const auto all = gather_numbers(*group, rank.host_context(), whole);
  if (std::ranges::count(all, whole) == std::ssize(all)) return {};
  std::string different;
  for (const Digest& own : mine) {
    const auto digests = gather_numbers(*group, rank.host_context(), own.value);
    if (different.empty() && own.value != usual(digests)) different = rank.table()[own.id].name;
  }
  return different;
}

// The same for the ranks that hold a shared parameter, trained or not.
std::string different_from_holders(Rank& rank, const std::vector<Digest>& mine) {
  std::string different;
  for (const auto& [id, holders] : rank.states().shared_parameters()) {
    const std::string found = different_in(rank, holders, {mine[static_cast<std::size_t>(id)]});
    if (different.empty()) different = found;
  }
  return different;
}

// The same for ranks with the same boxes.
std::string different_from_neighbours(Rank& rank) {
  std::vector<Digest> mine;
  for (ParamId id = 0; id < rank.table().size(); ++id) {
    const ParamSpec& spec = rank.table()[id];
    const std::int64_t common = common_count(spec);
    if (common > 0) mine.push_back(digest_of(rank, id, spec.local_shape.count() - common));
  }
  return different_in(rank, rank.states().box_holders(), mine);
}

}  // namespace

void check_replicas(Rank& rank, const std::vector<RankPlace>& places, std::int64_t iteration,
                    const std::function<std::string()>& advice) {
  rank.finish_gather();
  std::vector<Digest> mine;
  PerDomain<std::vector<Digest>> whole;  // of weights that every data-parallel rank has whole
  PerDomain<std::vector<Digest>> parts;
  for (ParamId id = 0; id < rank.table().size(); ++id) {
    mine.push_back(digest_of(rank, id));
    (rank.parameters().weight(id) ? whole : parts)[rank.table()[id].domain].push_back(mine.back());
  }
  std::string different;
  for (const std::string& found :
       {different_in(rank, rank.ranks().data_of_domains().dense, whole.dense),
        different_in(rank, rank.ranks().data_of_domains().expert, whole.expert),
        different_in(rank, rank.states().replicas().dense, parts.dense),
        different_in(rank, rank.states().replicas().expert, parts.expert),
        different_from_holders(rank, mine), different_from_neighbours(rank)}) {
    if (different.empty()) different = found;
  }
  if (rank.largest_of_all(different.empty() ? 0 : 1) == 0) return;
  const Communicator& world = *rank.ranks().control;
  const std::string text = Json{{"rank", rank_text(rank.ranks(), places)},
                                {"different", different},
                                {"advice", world.rank() == 0 ? advice() : ""}}
                               .dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto texts = gather_texts(*rank.ranks().control, rank.host_context(), text);
  for (const std::string& other : texts) {
    const Json json = Json::parse(other);
    if (json.at("different").get<std::string>().empty()) continue;
    throw ErrorOf<ErrorCode::kTemporary>(
        "after iteration {}: {} has other bits of {} than other ranks that hold it "
        "(--check-weight-hash-across-dp-replicas-interval): memory or a processor of that machine "
        "is suspicious. {}, without that machine if it happens again",
        iteration, json.at("rank").get<std::string>(), json.at("different").get<std::string>(),
        Json::parse(texts.front()).at("advice").get<std::string>());
  }
}

std::string restart_advice(const std::filesystem::path& save, std::string_view run_id,
                           std::int64_t same) {
  const std::string known = fmt::format("All ranks were the same after iteration {}", same);
  if (save.empty()) return known + ", and nothing is saved: start the run again";
  const SavedCheckpoint* newest = nullptr;
  bool is_latest = true;
  std::vector<SavedCheckpoint> saved;
  try {
    saved = saved_checkpoints(save);
  } catch (const Error& error) {
    return fmt::format("{} ({}): start again from a checkpoint that is not newer", known,
                       error.what());
  }
  for (const SavedCheckpoint& checkpoint : saved) {
    if (checkpoint.run_id != run_id) continue;
    if (checkpoint.iteration > same) {
      is_latest = false;
    } else if (newest == nullptr || checkpoint.iteration > newest->iteration) {
      newest = &checkpoint;
    }
  }
  if (newest == nullptr) {
    return fmt::format("{}, and {} has no checkpoint from before: start the run again{}", known,
                       save.string(), is_latest ? "" : " with --overwrite");
  }
  const std::string from = newest->directory.string();
  if (is_latest) return fmt::format("{}: start again from the last checkpoint, {}", known, from);
  return fmt::format(
      "{}, and later checkpoints may be spoilt: start again from {} (--load {} --ckpt-step {} "
      "--overwrite)",
      known, from, save.string(), newest->iteration);
}

}  // namespace phalanx
