#pragma once
// A detector and simulated ranks, for tests.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/rendezvous/detector.h"

namespace phalanx {

inline Detector::Limits five_seconds() {
  Detector::Limits limits;
  limits.silence = limits.far_silence = limits.still = std::chrono::seconds(5);
  return limits;
}

// A simulated world: every rank sends `heartbeats[rank]` every half second, and the detector judges
// ten times as often.
class World {
 public:
  explicit World(std::vector<int> ranks_of_hosts, const Detector::Limits& limits = five_seconds()) {
    std::vector<RankPlace> places;
    for (std::size_t host = 0; host < ranks_of_hosts.size(); ++host)
      for (int local = 0; local < ranks_of_hosts[host]; ++local)
        places.push_back({.rank = static_cast<int>(places.size()),
                          .world_size = 0,
                          .host = static_cast<int>(host),
                          .local_rank = local,
                          .local_size = ranks_of_hosts[host],
                          .host_name = "n0" + std::to_string(host + 1)});
    heartbeats.resize(places.size());
    silent.resize(places.size(), false);
    detector = std::make_unique<Detector>(places, limits);
    for (std::size_t rank = 0; rank < places.size(); ++rank)
      detector->on_joined(static_cast<int>(rank), 100 + static_cast<int>(rank), now);
  }

  // Runs until the verdict, or for that many seconds.
  std::optional<Verdict> run(double seconds) {
    const auto end = now + std::chrono::duration_cast<Detector::Clock::duration>(
                               std::chrono::duration<double>(seconds));
    while (now < end) {
      for (std::size_t rank = 0; rank < heartbeats.size(); ++rank) {
        if (silent[rank] || step % 10 != rank % 10) continue;
        if (before_heartbeat) before_heartbeat(static_cast<int>(rank));
        detector->on_heartbeat(static_cast<int>(rank), heartbeats[rank], now);
      }
      if (auto verdict = detector->judge(now)) return verdict;
      now += std::chrono::milliseconds(50);
      ++step;
    }
    return std::nullopt;
  }

  // All ranks complete a step every half second, for so many seconds.
  void train(double seconds) {
    std::vector<bool> still(heartbeats.size(), false);
    train_but(still, seconds);
  }
  void train_but(const std::vector<bool>& still, double seconds) {
    before_heartbeat = [this, still](int rank) {
      if (still[rank]) return;
      Heartbeat& heartbeat = heartbeats[rank];
      heartbeat.ticks += 10;
      ++heartbeat.iteration;
      if (heartbeat.iteration == 0) return;
      ++heartbeat.steps;
      heartbeat.step_seconds += 0.5;
      heartbeat.waited_seconds += 0.1;
    };
    EXPECT_FALSE(run(seconds));
    before_heartbeat = nullptr;
  }

  void wait_in(int rank, CommPlace place, std::vector<int> missing) {
    place.rank = rank;
    heartbeats[rank].wait = Heartbeat::Wait{std::move(place), std::move(missing), 0.0};
  }

  std::vector<Heartbeat> heartbeats;
  std::vector<bool> silent;
  std::function<void(int rank)> before_heartbeat;
  std::unique_ptr<Detector> detector;
  Detector::Clock::time_point now{std::chrono::hours(1)};
  std::size_t step = 0;
};

inline CommPlace all_gather() {
  return {.rank = 0, .group = "tp", .operation = "all_gather(f32 x 88)", .number = 12};
}
inline CommPlace receive() {
  return {.rank = 0, .group = "", .operation = "receive(bf16 x 64)", .number = 7};
}

}  // namespace phalanx
