#pragma once
// The messages between members and the coordinator, after both have proved that they know the
// secret. Encoded as: the length of a JSON object (4 bytes, little-endian), the object, and the
// texts that are not part of the JSON, one after the other. A length of 0: a heartbeat follows
// (heartbeat_code.h).

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "phalanx/rendezvous/heartbeat.h"
#include "phalanx/rendezvous/mailbox.h"
#include "phalanx/rendezvous/place_list.h"
#include "phalanx/rendezvous/rank_watch.h"

namespace phalanx::rendezvous {

inline constexpr std::size_t kLongestGathered = std::size_t{16} << 10;
inline constexpr std::size_t kLongestBroadcast = std::size_t{1} << 20;
// A text of the mailbox is sent in parts of this size, between which heartbeats go.
inline constexpr std::size_t kLongestMailPart = std::size_t{1} << 20;
// The longest message of a member: a broadcast, or a part of a mail, and its header.
inline constexpr std::size_t kLongestOfMember = kLongestBroadcast + (std::size_t{64} << 10);
// The longest message of the coordinator: the gathered texts of some ten thousand ranks.
inline constexpr std::size_t kLongestOfCoordinator = std::size_t{256} << 20;

// ---- sent by members, besides Heartbeat

struct JoinRequest {
  int world_size = 0;  // the number of ranks, or of launchers
  int node = 0;
  int local_rank = 0, local_size = 1;  // as its launcher says
  int pid = 0;
  std::string host_name{};
  std::string machine{};  // own_machine(): equal for two processes that can share memory
  // A random name that the member gives its session: a member that reconnects with it resumes the
  // session. Empty: it will not reconnect.
  std::string session{};
  std::uint64_t last_received = 0;  // number of the session's last message that it received
};

enum class RoundKind : std::uint8_t { kGather, kBroadcast };

// A member's part of a round; in a broadcast only rank 0's text is not empty.
struct RoundPart {
  std::int64_t round = 0;
  RoundKind kind = RoundKind::kGather;
  std::string text{};
};

struct Failing {
  std::string reason{};
};

struct Goodbye {};

// The next part of a text for the mailbox; each part says how many bytes the text has.
struct MailPart {
  std::string name{};
  std::uint64_t total = 0;
  std::string text{};
};

// Asks for a text of the mailbox: when it has come, or (`take`) only if it is there.
struct MailRequest {
  std::string name{};
  bool take = false;
};

// ---- sent by the coordinator

struct Refusal {
  ErrorCode code = ErrorCode::kConfiguration;
  bool later = false;  // the member may try again
  std::string text{};
};

struct Welcome {
  std::string coordinator{};  // "rank 0 (host n01, pid 4711)"
  int coordinator_rank = -1;  // whose process hosts it; -1: a launcher
  PlaceList places{};
};

// The texts of a round, in as few bytes as may be: members that have the same text share it, and in
// a gathering those that said the same in the gathering before are left out (round.h).
struct RoundResult {
  struct Run {
    int first = 0, count = 1;  // members
    std::string text{};
  };
  std::int64_t round = 0;
  RoundKind kind = RoundKind::kGather;
  std::vector<Run> runs{};  // of a broadcast, one
};

// Sent every kPingPeriod.
struct Ping {
  std::string waiting{};                // the roll-call, until all have joined
  std::string busy{};                   // Detector::busy_ranks()
  std::chrono::milliseconds silence{};  // the limit of silence; 0: not known yet
};

struct Failed {
  RankFailure failure{};
  bool of_own_group = true;  // false: a failure of ranks, sent to launchers
};

struct GoodbyeConfirmed {};

// The answer to a mail's last part (kKept; kRefused, and `text` says why), to a request to read it
// (kRead), or to take it (kTaken, kNotThere).
struct Mail {
  enum class Kind : std::uint8_t { kKept, kRefused, kRead, kTaken, kNotThere };
  std::string name{};
  Kind kind = Kind::kKept;
  std::string text{};  // the last bytes of the encoded message
};

using ControlMessage =
    std::variant<JoinRequest, RoundPart, Heartbeat, Failing, Goodbye, MailPart, MailRequest,
                 Refusal, Welcome, RoundResult, Ping, Failed, GoodbyeConfirmed, Mail>;

std::string encode(const ControlMessage& message);
// UnavailableError if the bytes are no message.
ControlMessage decode(std::string_view bytes);

}  // namespace phalanx::rendezvous
