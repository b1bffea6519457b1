#pragma once
// Is told what becomes of states that are shared, in the order of a step: when parts begin to come
// or to be summed, when that is waited for, and when what was whole is let go. For pictures.

#include <cstdint>

namespace phalanx {

// What moves, and what its number is the number of.
enum class StateMove : std::uint8_t {
  kWeightRead,    // a group: this rank's part comes from its file, to be gathered
  kWeights,       // a group: its whole weights come, from the other ranks or a file
  kGradientSum,   // a bucket: its gradients are summed over ranks
  kReplicaSum,    // a bucket: its sums are summed over the copies of the states
  kNewParameters  // a bucket: what other ranks have updated comes
};

class StateObserver {
 public:
  virtual ~StateObserver() = default;
  virtual void begins(StateMove move, int number) = 0;
  // It has been waited for; of gradients that are cut, the sum is with the others.
  virtual void is_done(StateMove move, int number) = 0;
  // The group's whole weights are let go.
  virtual void lets_go(int group) = 0;
  // The optimizer's step, with norm and clipping.
  virtual void update_begins() = 0;
  virtual void update_ends() = 0;
};

}  // namespace phalanx
