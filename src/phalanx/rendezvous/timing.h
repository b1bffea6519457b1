#pragma once
// Every period and time limit of the rendezvous. A limit of silence or stillness that a run's flags
// give takes the place of the one here.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace phalanx::rendezvous {

// ---- heartbeats and judging

// How often a member sends a heartbeat, and the coordinator a ping.
inline constexpr auto kHeartbeatPeriod = std::chrono::milliseconds(500);
inline constexpr auto kPingPeriod = std::chrono::milliseconds(500);
// How often members and the coordinator look at the clock; the coordinator while a loss is due.
inline constexpr auto kTickPeriod = std::chrono::milliseconds(100);
inline constexpr auto kUrgentTickPeriod = std::chrono::milliseconds(10);
// A loss that is due within this time makes the coordinator tick at the urgent period.
inline constexpr auto kUrgentBefore = std::chrono::milliseconds(200);
// A process that has not looked at the clock for longer than this did not run itself: it counts
// this time for nobody.
inline constexpr auto kOwnGap = std::chrono::seconds(1);
// Two heartbeats and a bit: a rank that has sent nothing for so long is no longer where its last
// heartbeat says.
inline constexpr auto kStaleHeartbeat = std::chrono::milliseconds(1200);

// How long a rank may be silent: on the coordinator's host, and on other hosts, where the network
// has outages. How long it may make no progress; at least, once a rank has said goodbye.
inline constexpr auto kSilenceLimit = std::chrono::seconds(10);
inline constexpr auto kFarSilenceLimit = std::chrono::seconds(60);
inline constexpr auto kStillnessLimit = std::chrono::seconds(60);
inline constexpr auto kStillnessLimitWhileLeaving = std::chrono::seconds(60);

// How long a rank may live on after it has heard of a failure.
inline constexpr auto kStuckGrace = std::chrono::seconds(10);

// ---- joining

inline constexpr auto kJoinTimeout = std::chrono::minutes(10);
inline constexpr auto kRollCallPeriod = std::chrono::seconds(5);
// A member waits a little longer than the coordinator, which says who is missing.
inline constexpr auto kJoinSlack = std::chrono::seconds(1);
inline constexpr auto kPollPeriod = std::chrono::milliseconds(100);
// Of one attempt to join.
inline constexpr auto kConnectTimeout = std::chrono::seconds(3);
inline constexpr auto kHandshakeTimeout = std::chrono::seconds(5);
inline constexpr auto kMungeTimeout = std::chrono::seconds(10);
// Between attempts to join or to reconnect; each pause is twice the one before.
inline constexpr auto kShortestPause = std::chrono::milliseconds(50);
inline constexpr auto kLongestPause = std::chrono::seconds(1);
// At the coordinator: from a connection's begin to its whole hello, and from the proof to the
// request to join.
inline constexpr auto kHelloTimeout = std::chrono::seconds(2);
inline constexpr auto kJoinRequestTimeout = std::chrono::seconds(5);
// How old a connection without a proof must be before it makes room for another one; of an address
// that is suspect, for one of the same address; of an
// address with many, for another one; with a whole hello. How long a failed hello makes
// an address suspect, and the time between two lines of the log about an address.
inline constexpr auto kUnprovenAge = std::chrono::milliseconds(100);
inline constexpr auto kSuspectUnprovenAge = std::chrono::milliseconds(10);
inline constexpr auto kCrowdAge = std::chrono::milliseconds(10);
inline constexpr auto kHelloAge = std::chrono::milliseconds(1000);
inline constexpr auto kSuspicion = std::chrono::seconds(10);
inline constexpr auto kFailedHelloLogPeriod = std::chrono::seconds(10);

// ---- lost connections

// How long the coordinator waits for a member whose connection was closed or reset to reconnect;
// where a launcher would report that its process ended; and how much before the end of the silence
// limit it counts a member as lost whose connection was cut.
inline constexpr auto kReconnectWait = std::chrono::milliseconds(800);
inline constexpr auto kWatchedReconnectWait = std::chrono::seconds(5);
inline constexpr auto kBeforeSilenceLimit = std::chrono::milliseconds(100);
// How long it waits for the launcher's report of how a process ended whose connection did, and for
// the goodbye that a process sent before it ended.
inline constexpr auto kExitReportWait = std::chrono::milliseconds(30);
inline constexpr auto kGoodbyeWait = std::chrono::milliseconds(50);
// Of one attempt to reconnect. A member tries a second connection beside an open one after this
// part of the silence limit: the network may have forgotten the first.
inline constexpr auto kReconnectTimeout = std::chrono::seconds(5);
inline constexpr int kSilencePartUntilDoubt = 4;
// The silence limit of a connection until the run's is known. The kernel gives a connection up a
// quarter of the limit before its end, or this long before where that is less.
inline constexpr auto kFirstSilenceLimit = std::chrono::seconds(60);
inline constexpr auto kMostBeforeConnectionEnd = std::chrono::seconds(2);

// ---- leaving

// How long a member waits until the coordinator confirms its failure or goodbye, and the
// coordinator for goodbyes when it ends.
inline constexpr auto kLastMessageWait = std::chrono::seconds(1);
inline constexpr auto kFarewell = std::chrono::seconds(5);

// A limit that flags or heartbeats give in seconds.
inline std::chrono::milliseconds milliseconds_of(double seconds) {
  constexpr double kMost = 1e9;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(seconds, kMost) * 1e3));
}

}  // namespace phalanx::rendezvous
