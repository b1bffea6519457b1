#pragma once
// What members and the coordinator say to each other once both have proved that they know the
// secret. As bytes: the length of a JSON object (4 bytes, little-endian), the object, and the texts
// that are not JSON, one after the other.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "phalanx/rendezvous/detector.h"
#include "phalanx/rendezvous/rank_place.h"
#include "phalanx/rendezvous/rank_watch.h"

namespace phalanx::rendezvous {

inline constexpr std::size_t kLongestGathered = std::size_t{16} << 10;
inline constexpr std::size_t kLongestBroadcast = std::size_t{1} << 20;
// What a member may say at once: a broadcast, and what stands around it.
inline constexpr std::size_t kLongestOfMember = kLongestBroadcast + (std::size_t{64} << 10);
// What the coordinator may: the gathered texts of some ten thousand ranks.
inline constexpr std::size_t kLongestOfCoordinator = std::size_t{256} << 20;

// Of members.

struct JoinRequest {
  int world_size = 0;  // of its group
  int node = 0;
  int local_rank = 0, local_size = 1;  // as its launcher says
  int pid = 0;
  std::string host_name{};
  std::string machine{};  // equal for two that share memory: boot id and network namespace
  // The member's own random name of its session: who comes again with it goes on where a lost
  // connection ended. Empty: it will not.
  std::string session{};
  std::uint64_t heard = 0;  // up to which number, in this session
};

enum class RoundKind : std::uint8_t { kGather, kBroadcast };

// Its part of a round; for a broadcast, rank 0's alone is not empty.
struct RoundPart {
  std::int64_t round = 0;
  RoundKind kind = RoundKind::kGather;
  std::string text{};
};

struct Beat {
  Heartbeat heartbeat{};
};

struct Failing {
  std::string reason{};
};

struct Goodbye {};

// Of the coordinator.

struct Refusal {
  ErrorCode code = ErrorCode::kConfiguration;
  bool later = false;  // it may come again
  std::string text{};
};

struct Welcome {
  std::string coordinator{};  // "rank 0 (host n01, pid 4711)"
  int hosted_by = -1;         // a rank; -1: a launcher
  std::vector<RankPlace> places{};
};

struct RoundResult {
  std::int64_t round = 0;
  std::vector<std::string> texts{};  // of all; for a broadcast one
};

// Every half second.
struct Ping {
  std::string waiting{};                // the roll-call, before all have joined
  std::string busy{};                   // who is
  std::chrono::milliseconds silence{};  // after which somebody is taken for dead; 0: not known yet
};

struct Failed {
  RankFailure failure{};
  bool of_own_group = true;  // false: launchers hear of ranks
};

struct GoodbyeHeard {};

using Message = std::variant<JoinRequest, RoundPart, Beat, Failing, Goodbye, Refusal, Welcome,
                             RoundResult, Ping, Failed, GoodbyeHeard>;

std::string encode(const Message& message);
// UnavailableError where it is not one.
Message decode(std::string_view bytes);

}  // namespace phalanx::rendezvous
