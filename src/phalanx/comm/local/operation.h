#pragma once
// One collective, or one point-to-point message, of the local transport: the ranks' calls and
// tensors, and the pieces of the work.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/comm/call.h"
#include "phalanx/rendezvous/comm_place.h"

namespace phalanx::local {

// The ranks of one communicator.
struct LocalGroup : MessageGroup {
  std::int64_t id = 0;
};

// The tensors of one rank.
struct Contribution {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<std::int64_t> to{}, from{};  // all-to-all: elements for and from each rank
};

// Bytes read from each rank's tensors, by rank of the world.
using ReadCounters = std::span<std::atomic<std::int64_t>>;

class Operation {
 public:
  // `number` counts the group's collectives, or the messages between two ranks, from 0. Sums are
  // added in blocks of `sum_block`.
  Operation(std::shared_ptr<const LocalGroup> group, std::uint64_t number, Call first_call,
            int sum_block);

  // Under the hub's lock, until all have arrived. ---------------------------------------------
  // CommError that names both if `member` calls something else than the ranks that came before it.
  void arrive(std::size_t member, const Call& call, Contribution contribution);
  bool all_arrived() const { return arrived_count_ == group_->ranks.size(); }
  // Ranks of the world that have not arrived.
  std::vector<int> missing_ranks() const;
  // Cuts the work into pieces, which may be done from then on.
  void make_ready();

  // From then on, by any thread. --------------------------------------------------------------
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  bool done() const { return done_.load(std::memory_order_acquire); }
  bool has_unclaimed_pieces() const {
    return ready() && next_.load(std::memory_order_relaxed) < pieces_;
  }
  std::int64_t pieces() const { return pieces_; }
  std::int64_t bytes() const { return bytes_; }  // that are read
  // Claims and does pieces: at most `limit`, until none is left or `stop` is set. True if this
  // finished the operation: the ranks that wait for it are to be woken.
  bool do_pieces(std::int64_t limit, const std::atomic<bool>& stop, ReadCounters bytes_read);

  OperationKind kind() const { return first_call_.kind; }
  // The text of describe_place() or describe_message().
  std::string label() const;
  // The place of `rank` of the world while it is in this operation.
  CommPlace place_of(int rank) const;
  // kSplit: how many groups, and where their ids begin (set before make_ready).
  std::int64_t groups() const { return first_call_.count; }
  void set_first_group(std::int64_t id) { first_group_ = id; }
  std::int64_t first_group() const { return first_group_; }

 private:
  // What one rank of an all-to-all gives another.
  struct PairPart {
    std::size_t source = 0, destination = 0;  // members
    std::int64_t source_offset = 0, destination_offset = 0;
    std::int64_t bytes = 0;
    std::int64_t first_piece = 0;
  };
  // A range of bytes of the result: the reduction of several members' inputs, or a copy of one.
  struct Piece {
    std::size_t first_source = 0, sources = 1;  // members
    std::int64_t source_offset = 0;
    std::size_t first_destination = 0, destinations = 1;
    std::int64_t destination_offset = 0;
    std::int64_t bytes = 0;
  };

  void expect_matching_parts(std::size_t member) const;
  [[noreturn]] void mismatch(std::size_t member, const std::string& theirs, std::size_t other,
                             const std::string& others) const;
  void cut(std::int64_t parts, std::int64_t bytes);
  void cut_all_to_all();
  Piece piece_of(std::int64_t index) const;
  Piece pair_piece_of(std::int64_t index) const;
  void do_piece(std::int64_t index, ReadCounters bytes_read) const;

  std::shared_ptr<const LocalGroup> group_;
  std::uint64_t number_;
  Call first_call_;
  int sum_block_;
  std::vector<std::optional<Contribution>> contributions_;
  std::size_t arrived_count_ = 0;
  std::int64_t first_group_ = 0;

  // The result has parts of equal size, one or as many as there are members; an all-to-all has
  // parts of pairs.
  std::int64_t part_bytes_ = 0, pieces_of_part_ = 0;
  std::vector<PairPart> pair_parts_;
  std::int64_t pieces_ = 0;
  std::int64_t bytes_ = 0;

  std::atomic<bool> ready_ = false;
  std::atomic<bool> done_ = false;
  std::atomic<std::int64_t> next_ = 0;      // piece to claim
  std::atomic<std::int64_t> finished_ = 0;  // pieces
};

}  // namespace phalanx::local
