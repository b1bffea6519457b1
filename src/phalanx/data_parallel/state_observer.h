#pragma once
// An observer of the states that ranks share, for pictures. It is told when a gather or sum begins
// and ends, and when whole weights are freed.

#include <cstdint>

namespace phalanx {

// The kind of a move; its number is a group's or a bucket's.
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
  // The move is over. Sums of cut gradients have been added to the shard.
  virtual void is_done(StateMove move, int number) = 0;
  // The group's whole weights are freed.
  virtual void frees_weights(int group) = 0;
  // The optimizer's step, with norm and clipping.
  virtual void update_begins() = 0;
  virtual void update_ends() = 0;
};

}  // namespace phalanx
