// Random programs of random worlds in which one rank fails at a random place: the detector names
// that rank, and no other one before.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "phalanx/rendezvous/detector.h"

namespace phalanx {
namespace {

constexpr auto kSlice = std::chrono::milliseconds(50);
constexpr int kSlicesPerHeartbeat = 10;
constexpr int kSlicesUntilWaitIsReported = 1;

struct Action {
  enum class Kind { kCompute, kCall, kSend, kReceive, kStep };
  Kind kind = Kind::kCompute;
  int group = 0;            // of a call
  std::int64_t number = 0;  // of the group's calls, or of the messages between two ranks
  int peer = 0;             // of a message
  int slices = 0;           // of computing
};

enum class Fault { kNone, kStuck, kStopped, kKilled, kBusyForLong };

// A list of actions for each rank, all taken from one list, so that without a fault all end.
class Program {
 public:
  Program(int ranks, std::mt19937& random) : actions(ranks) {
    const auto pick = [&](int below) { return static_cast<int>(random() % below); };
    const int group_count = 1 + pick(ranks);
    for (int i = 0; i < group_count; ++i) {
      std::vector<int> members;
      for (int rank = 0; rank < ranks; ++rank)
        if (i == 0 || pick(2) == 0) members.push_back(rank);
      if (members.size() > 1) groups.push_back(members);
    }
    std::vector<std::int64_t> calls(groups.size());
    std::map<std::pair<int, int>, std::int64_t> messages;
    for (int step = 0; step < 24; ++step) {
      for (int i = 0; i < 3 * ranks; ++i) {
        const int rank = pick(ranks);
        if (pick(3) == 0) {
          actions[rank].push_back({.kind = Action::Kind::kCompute, .slices = 1 + pick(6)});
        } else if (pick(2) == 0) {
          const int group = pick(static_cast<int>(groups.size()));
          for (const int member : groups[group])
            actions[member].push_back(
                {.kind = Action::Kind::kCall, .group = group, .number = calls[group]});
          ++calls[group];
        } else {
          const int peer = (rank + 1 + pick(ranks - 1)) % ranks;
          const std::int64_t number = messages[{rank, peer}]++;
          actions[rank].push_back({.kind = Action::Kind::kSend, .number = number, .peer = peer});
          actions[peer].push_back({.kind = Action::Kind::kReceive, .number = number, .peer = rank});
        }
      }
      for (int rank = 0; rank < ranks; ++rank) {
        actions[rank].push_back({.kind = Action::Kind::kCall, .group = 0, .number = calls[0]});
        actions[rank].push_back({.kind = Action::Kind::kStep});
      }
      ++calls[0];
    }
  }

  std::vector<std::vector<int>> groups;
  std::vector<std::vector<Action>> actions;
};

class Simulation {
 public:
  Simulation(int ranks, unsigned seed, Fault fault)
      : random_(seed), program_(ranks, random_), fault_(fault), ranks_(ranks) {
    std::vector<RankPlace> places(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      places[rank] = {.rank = rank, .host = rank / 2, .host_name = std::to_string(rank / 2)};
      ranks_[rank].heartbeat_slice = static_cast<int>(random_() % kSlicesPerHeartbeat);
    }
    victim_ = static_cast<int>(random_() % ranks);
    choose_place();
    Detector::Limits limits;
    limits.silence = limits.far_silence = limits.still = std::chrono::seconds(5);
    detector_ = std::make_unique<Detector>(places, limits);
    for (int rank = 0; rank < ranks; ++rank) detector_->on_joined(rank, 1000 + rank, now_);
  }

  // Runs until the verdict, or until all are done.
  std::optional<Verdict> run() {
    for (int slice = 0; slice < 20000; ++slice, now_ += kSlice) {
      for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) advance(rank);
      for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank)
        send_heartbeat(rank, slice);
      if (auto verdict = detector_->judge(now_)) return verdict;
      if (std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.done; })) {
        finished_ = true;
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  int victim() const { return victim_; }
  bool finished() const { return finished_; }
  bool has_failed() const { return failed_; }

 private:
  struct Rank {
    std::size_t position = 0;  // in its actions
    int slices_left = -1;      // of computing; -1: not begun
    int waited = 0;            // slices, in this wait
    bool done = false;
    int heartbeat_slice = 0;
    std::set<std::int64_t> sent{};
    Heartbeat heartbeat{};
  };

  // Chooses where the victim fails: after the first steps and before the last ones.
  void choose_place() {
    const auto& actions = program_.actions[victim_];
    std::vector<std::size_t> places;
    int steps = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind == Action::Kind::kStep) ++steps;
      if (steps >= 8 && steps < 20) places.push_back(i);
    }
    place_ = places[random_() % places.size()];
  }

  bool is_out(int rank) const {
    return rank == victim_ && failed_ && (fault_ == Fault::kStopped || fault_ == Fault::kKilled);
  }

  void move(Rank& rank) {
    ++rank.position;
    rank.slices_left = -1;
    rank.waited = 0;
    rank.heartbeat.wait.reset();
    ++rank.heartbeat.ticks;
  }

  // True where the victim does nothing more in this slice.
  bool fail_victim(Rank& rank) {
    if (rank.position != place_ || fault_ == Fault::kNone) return false;
    if (fault_ == Fault::kBusyForLong) {
      if (!failed_) busy_left_ = 400;  // 20 s
      failed_ = true;
      rank.heartbeat.busy = busy_left_ > 0 ? "saving" : "";
      ++rank.heartbeat.ticks;
      return busy_left_-- > 0;
    }
    if (!failed_ && fault_ == Fault::kKilled)
      detector_->on_lost(victim_, "its connection was closed", now_);
    failed_ = true;
    return true;
  }

  void advance(int rank_number) {
    Rank& rank = ranks_[rank_number];
    for (int moved = 0; moved < 100 && !rank.done; ++moved) {
      if (rank_number == victim_ && fail_victim(rank)) return;
      if (rank.position == program_.actions[rank_number].size()) {
        rank.done = true;
        rank.heartbeat.wait.reset();
        detector_->on_left(rank_number);
        return;
      }
      if (!act(rank_number, rank, program_.actions[rank_number][rank.position])) return;
      move(rank);
    }
  }

  // Whether the action is over.
  bool act(int number, Rank& rank, const Action& action) {
    switch (action.kind) {
      case Action::Kind::kCompute:
        if (rank.slices_left < 0) rank.slices_left = action.slices;
        return rank.slices_left-- == 0;
      case Action::Kind::kStep:
        ++rank.heartbeat.iteration;
        if (rank.heartbeat.iteration > 0) {
          ++rank.heartbeat.steps;
          rank.heartbeat.step_seconds += 0.5;
        }
        return true;
      case Action::Kind::kSend:
        messages_.insert({number, action.peer, action.number});
        return true;
      case Action::Kind::kReceive:
        if (messages_.contains({action.peer, number, action.number})) return true;
        return wait(rank, {.operation = "receive", .number = action.number}, {action.peer});
      case Action::Kind::kCall:
        break;
    }
    auto& joined = calls_[{action.group, action.number}];
    joined.insert(number);
    std::vector<int> missing;
    for (const int member : program_.groups[action.group])
      if (!joined.contains(member)) missing.push_back(member);
    if (missing.empty()) return true;
    return wait(
        rank,
        {.group = std::to_string(action.group), .operation = "all_reduce", .number = action.number},
        missing);
  }

  bool wait(Rank& rank, CommPlace place, std::vector<int> missing) {
    if (++rank.waited > kSlicesUntilWaitIsReported)
      rank.heartbeat.wait =
          Heartbeat::Wait{std::move(place), std::move(missing), 0.05 * rank.waited};
    return false;
  }

  void send_heartbeat(int number, int slice) {
    Rank& rank = ranks_[number];
    if (rank.done || is_out(number) || slice % kSlicesPerHeartbeat != rank.heartbeat_slice) return;
    detector_->on_heartbeat(number, rank.heartbeat, now_);
  }

  std::mt19937 random_;
  Program program_;
  Fault fault_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, std::int64_t>, std::set<int>> calls_;
  std::set<std::tuple<int, int, std::int64_t>> messages_;
  std::unique_ptr<Detector> detector_;
  Detector::Clock::time_point now_{std::chrono::hours(1)};
  int victim_ = 0;
  std::size_t place_ = 0;
  bool failed_ = false;
  int busy_left_ = 0;
  bool finished_ = false;
};

constexpr unsigned kWorlds = 100;

void expect_culprit(Fault fault, ErrorCode code) {
  for (unsigned seed = 0; seed < kWorlds; ++seed) {
    Simulation simulation(2 + static_cast<int>(seed % 15), seed, fault);
    const auto verdict = simulation.run();
    ASSERT_TRUE(verdict) << "seed " << seed;
    EXPECT_TRUE(simulation.has_failed()) << "seed " << seed << ": " << verdict->reason;
    EXPECT_EQ(verdict->code, code) << "seed " << seed;
    EXPECT_EQ(verdict->culprits, std::vector<int>{simulation.victim()})
        << "seed " << seed << ": " << verdict->reason << "\n"
        << verdict->report;
  }
}

void expect_end(Fault fault) {
  for (unsigned seed = 0; seed < kWorlds; ++seed) {
    Simulation simulation(2 + static_cast<int>(seed % 15), seed, fault);
    const auto verdict = simulation.run();
    EXPECT_FALSE(verdict) << "seed " << seed << ": " << verdict->reason << "\n" << verdict->report;
    EXPECT_TRUE(simulation.finished()) << "seed " << seed;
  }
}

TEST(DetectorOfRandomWorlds, NobodyGoesWrong) { expect_end(Fault::kNone); }
TEST(DetectorOfRandomWorlds, OneIsBusyForLong) { expect_end(Fault::kBusyForLong); }
TEST(DetectorOfRandomWorlds, OneIsStuck) { expect_culprit(Fault::kStuck, ErrorCode::kHang); }
TEST(DetectorOfRandomWorlds, OneIsStopped) { expect_culprit(Fault::kStopped, ErrorCode::kHang); }
TEST(DetectorOfRandomWorlds, OneIsKilled) { expect_culprit(Fault::kKilled, ErrorCode::kTemporary); }

}  // namespace
}  // namespace phalanx
