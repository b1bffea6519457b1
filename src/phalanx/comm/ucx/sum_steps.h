#pragma once
// Who adds what, and when, in a sum whose slices end at their owners: member r of the group gets
// the sum of all members' data for it, in the order of the SumTree.
//
// r takes the data a block of members at a time, so it keeps the data of one block and the sums of
// the blocks that wait for their neighbours. All members begin elsewhere: in step s the members of
// block b take the block whose number differs from b by s in every digit (in base B, without
// carries). So in every step every block gives to one block and takes from one, and the blocks
// below a node of the tree come one after the other.
//
// Where a block's members share a host that r is not on, one of them adds the block's data for r
// and sends the sum: it crosses the network once. That depends on the hosts, the bits do not.

#include <vector>

#include "phalanx/comm/sum_tree.h"

namespace phalanx::ucx {

class SumSteps {
 public:
  // `hosts`: of the members.
  SumSteps(SumTree tree, std::vector<int> hosts);

  const SumTree& tree() const { return tree_; }
  int members() const { return tree_.values(); }
  int block_of(int member) const { return member / tree_.block(); }
  int blocks() const { return blocks_; }
  int first(int block) const { return tree_.first(block); }
  int size(int block) const { return tree_.terms(1, block); }

  // Some take nothing.
  int steps() const { return steps_; }
  // The block that members of `block` take in a step; -1: none.
  int taken_by(int block, int step) const;
  // The block whose members take `block` in a step; -1: none.
  int taker_of(int block, int step) const;

  // The member that adds the block's data for `member` of another host; -1: its members send it.
  int adder(int block, int member) const;
  // Whether there is any.
  bool has_adders() const { return has_adders_; }

 private:
  SumTree tree_;
  std::vector<int> hosts_;
  std::vector<int> host_of_block_;  // -1: several, or a single member
  int blocks_;
  int steps_ = 1;
  bool has_adders_ = false;
};

}  // namespace phalanx::ucx
