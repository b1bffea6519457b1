#pragma once
// The one order in which the values of a group's ranks are added, on every transport.
//
// A block of B consecutive ranks is added from left to right. The sums of blocks are values that
// are added in the same way, in blocks of B blocks, and so on until one sum is left:
//
//   B = 3, 8 ranks:  ((0 + 1 + 2) + (3 + 4 + 5) + (6 + 7))
//
// The tree is a function of the group's size and of B alone, so threads, processes and hosts give
// the same bits. Groups of up to B ranks are added from left to right. A block is what ranks of one
// host can add before anything leaves the host, and what a rank has to keep in memory at a time.
// The error of a sum grows with the B log_B(n) additions that a value goes through, not with n.

#include <cstdint>

namespace phalanx {

// The B of groups whose run names no other (--sum-block-size).
constexpr int kSumBlock = 8;

// Level 0 has the values, level k + 1 the sums of the blocks of level k; the last level has one
// node. Nodes of a level are numbered from the left.
class SumTree {
 public:
  // InternalError unless there are values and block is at least 2.
  SumTree(int values, int block);

  int values() const { return values_; }
  int block() const { return block_; }
  // How often sums are formed: 0 for a single value, 1 for up to B.
  int levels() const { return levels_; }
  int nodes(int level) const;
  // The nodes of the level below that a node of level >= 1 adds: `terms` of them from `first` on.
  int first(int node) const { return node * block_; }
  int terms(int level, int node) const;

 private:
  int values_;
  int block_;
  int levels_ = 0;
};

}  // namespace phalanx
