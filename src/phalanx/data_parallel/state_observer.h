#pragma once
// An observer of the states that ranks share, for pictures: it is told when a gather or a sum of
// them begins, when it is over, and when whole weights are freed.

#include <cstdint>

namespace phalanx {

// What moves, and whether its number is that of a group or of a bucket.
enum class StateMove : std::uint8_t {
  kWeightRead,    // group: this rank reads its part from a file before the gather
  kWeights,       // group: its whole weights are gathered, or read from a file
  kGradientSum,   // bucket: its gradients are summed over ranks
  kReplicaSum,    // bucket: its sums are summed over the copies of the states
  kNewParameters  // bucket: the parts that other ranks have updated are gathered
};

class StateObserver {
 public:
  virtual ~StateObserver() = default;
  virtual void begins(StateMove move, int number) = 0;
  // The move is over. A sum of gradients that are cut has been added to the shard.
  virtual void is_done(StateMove move, int number) = 0;
  // The group's whole weights are freed.
  virtual void lets_go(int group) = 0;
  // The optimizer's step, with norm and clipping.
  virtual void update_begins() = 0;
  virtual void update_ends() = 0;
};

}  // namespace phalanx
