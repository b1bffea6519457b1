#pragma once
// The threads that compute for one calling thread. Work is cut into parts by shape, and whichever
// thread runs takes the next part. So a thread that the system does not schedule delays nobody but
// the part that it holds.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace phalanx {

// How the parts of a round are dealt.
enum class Dealing {
  kNeighbours,  // each member starts with an equal share of neighbouring parts, then takes others'
  kInOrder,     // a free member takes the next part; for parts of unequal cost, the longest first
};

// How often threads have done what; for tests and measurements.
struct TeamCounts {
  std::int64_t rounds = 0;        // that helpers could join
  std::int64_t helped_parts = 0;  // parts that helpers computed
  std::int64_t sleeps = 0;        // of helpers, between rounds
  std::int64_t waits = 0;  // sleeps of the calling thread until helpers have ended their parts
};

// A calling thread and its helpers, which it starts when it first needs them. Between rounds
// helpers look for the next round for some microseconds, then sleep. Not to be shared by threads.
class Team {
 public:
  class Member;

  Team();
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // The calling thread's own team. Its helpers end with the thread.
  static Team& mine();

  // One round: up to `threads` members call work(member), which takes parts until none is left:
  //   while (member.next()) compute(member.part(), scratch[member.slot()]);
  // A member without a part is not called. Returns when all `parts` are computed; what members
  // wrote can be read then. `work` must not throw. Within a round the caller's further rounds have
  // one member. SystemError if the system refuses a thread.
  template <typename Work>
  void run(int threads, std::int64_t parts, Dealing dealing, const Work& work);

  // Binds the thread of slot i to the cores places[i]. The calling thread, of slot 0, stays where
  // it is: threads that it starts for other work would be bound with it.
  void set_places(std::vector<std::vector<int>> places);
  // The system's numbers of the calling thread and of its helpers.
  std::vector<int> thread_ids() const;
  TeamCounts counts() const;

 private:
  // The parts of one member that nobody has taken: members of the round | end | next, in one word,
  // so that one exchange takes a part of the round that is under way.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> word = 0;
  };
  struct Helper;
  using Call = void (*)(const void* work, Member& member);

  static constexpr int kPartBits = 26, kMemberBits = 12;
  static constexpr std::int64_t kMostParts = (std::int64_t{1} << kPartBits) - 1;
  static constexpr int kMostMembers = (1 << kMemberBits) - 1;

  void run_round(int members, std::int64_t parts, Dealing dealing, Call call, const void* work);
  void start_helpers(int count);
  void stop_helpers();
  void help(Helper& helper);
  void wait_for_helpers();
  bool take(int share, int slot, std::int64_t& part);
  void finish_parts(std::int64_t count);

  std::vector<std::vector<int>> places_;
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::unique_ptr<Share[]> shares_;  // one for each member
  int size_ = 1;
  bool in_round_ = false;
  std::atomic<bool> stops_ = false;

  // The round. Only a member that holds a part of it may read this.
  Call call_ = nullptr;
  const void* work_ = nullptr;

  alignas(64) std::atomic<std::uint32_t> round_ = 0;
  std::atomic<int> sleepers_ = 0;
  alignas(64) std::atomic<int> open_shares_ = 0;           // those with parts that nobody has taken
  alignas(64) std::atomic<std::uint32_t> unfinished_ = 0;  // parts
  std::atomic<bool> caller_sleeps_ = false;
  std::int64_t rounds_ = 0, waits_ = 0;
};

// One thread in a round.
class Team::Member {
 public:
  // Takes a part. False if none is left.
  bool next() {
    if (++part_ < end_) return true;
    return team_ != nullptr && take();
  }
  std::int64_t part() const { return part_; }
  int slot() const { return slot_; }  // from 0 to the number of members - 1

 private:
  friend class Team;
  // A round of one member.
  explicit Member(std::int64_t parts) : end_(parts) {}
  Member(Team& team, int slot) : team_(&team), slot_(slot), share_(slot) {}
  bool take();
  void give_back() { --part_; }  // next() takes the same part again

  Team* team_ = nullptr;
  int slot_ = 0;
  int share_ = 0;           // from which it takes
  std::int64_t part_ = -1;  // parts from part_ + 1 to end_ - 1 are taken, too
  std::int64_t end_ = 0;
  std::int64_t taken_ = 0;
};

template <typename Work>
void Team::run(int threads, std::int64_t parts, Dealing dealing, const Work& work) {
  const auto members = static_cast<int>(std::min<std::int64_t>(threads, parts));
  if (members <= 1 || in_round_) {
    if (parts == 0) return;
    Member alone(parts);
    work(alone);
    return;
  }
  run_round(
      members, parts, dealing,
      [](const void* w, Member& member) { (*static_cast<const Work*>(w))(member); }, &work);
}

}  // namespace phalanx
