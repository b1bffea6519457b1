#include "phalanx/comm/local/operation.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "phalanx/comm/comm_error.h"
#include "phalanx/comm/reduce.h"

namespace phalanx::local {
namespace {

// Large enough to claim cheaply, small enough for a fast cache and for an even share of the work. A
// multiple of every element size.
constexpr std::int64_t kPieceBytes = 64 << 10;

std::int64_t pieces_in(std::int64_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

}  // namespace

Operation::Operation(std::shared_ptr<const LocalGroup> group, std::uint64_t number, Call first_call,
                     int sum_block)
    : group_(std::move(group)),
      number_(number),
      first_call_(std::move(first_call)),
      sum_block_(sum_block),
      contributions_(group_->ranks.size()) {}

std::string Operation::label() const {
  if (kind() == OperationKind::kMessage) {
    return describe_message(group_->name, first_call_, number_, group_->ranks[0], group_->ranks[1]);
  }
  return describe_place(group_->name, first_call_, number_);
}

CommPlace Operation::place_of(int rank) const {
  return {.rank = rank,
          .group = group_->name,
          .operation = describe(first_call_, rank == group_->ranks[0] ? 0 : 1),
          .number = static_cast<std::int64_t>(number_)};
}

std::vector<int> Operation::missing_ranks() const {
  std::vector<int> ranks;
  for (std::size_t member = 0; member < contributions_.size(); ++member) {
    if (!contributions_[member]) ranks.push_back(group_->ranks[member]);
  }
  return ranks;
}

void Operation::mismatch(std::size_t member, const std::string& theirs, std::size_t other,
                         const std::string& others) const {
  const int rank = group_->ranks[member];
  throw CommError(
      ErrorCode::kInternal,
      {.rank = rank,
       .group = group_->name,
       .operation = theirs,
       .number = static_cast<std::int64_t>(number_)},
      describe_mismatch(group_->name, kind(), number_, rank, theirs, group_->ranks[other], others));
}

void Operation::arrive(std::size_t member, const Call& call, Contribution contribution) {
  if (call != first_call_) {
    std::size_t other = 0;
    while (!contributions_[other]) ++other;
    mismatch(member, describe(call, member), other, describe(first_call_, other));
  }
  contributions_[member] = std::move(contribution);
  ++arrived_count_;
  if (kind() == OperationKind::kAllToAll) expect_matching_parts(member);
}

void Operation::expect_matching_parts(std::size_t member) const {
  const Contribution& mine = *contributions_[member];
  for (std::size_t other = 0; other < contributions_.size(); ++other) {
    if (!contributions_[other]) continue;
    const Contribution& theirs = *contributions_[other];
    const int my_rank = group_->ranks[member], their_rank = group_->ranks[other];
    if (mine.to[other] != theirs.from[member]) {
      mismatch(member, describe_given(mine.to[other], their_rank), other,
               describe_taken(theirs.from[member], my_rank));
    }
    if (mine.from[other] != theirs.to[member]) {
      mismatch(member, describe_taken(mine.from[other], their_rank), other,
               describe_given(theirs.to[member], my_rank));
    }
  }
}

void Operation::cut(std::int64_t parts, std::int64_t bytes) {
  part_bytes_ = bytes;
  pieces_of_part_ = pieces_in(bytes);
  pieces_ = parts * pieces_of_part_;
}

// No piece writes what another piece reads, also where output and input share memory: what a part
// writes of a rank's input, only that part reads, range by range.
void Operation::make_ready() {
  const auto ranks = std::ssize(group_->ranks);
  const std::int64_t bytes = first_call_.count * size_of(first_call_.dtype);
  switch (kind()) {
    case OperationKind::kAllReduce:
      cut(1, bytes);
      bytes_ = ranks * bytes;
      break;
    case OperationKind::kReduceScatter:
      cut(ranks, bytes);
      bytes_ = ranks * ranks * bytes;
      break;
    case OperationKind::kAllGather:
      cut(ranks, bytes);
      bytes_ = ranks * bytes;
      break;
    case OperationKind::kBroadcast:
    case OperationKind::kMessage:
      cut(1, bytes);
      bytes_ = bytes;
      break;
    case OperationKind::kAllToAll:
      cut_all_to_all();
      break;
    case OperationKind::kBarrier:
    case OperationKind::kSplit:
      break;
  }
  if (pieces_ == 0) done_.store(true, std::memory_order_release);
  ready_.store(true, std::memory_order_release);
}

void Operation::cut_all_to_all() {
  const std::int64_t element = size_of(first_call_.dtype);
  std::vector<std::int64_t> filled(contributions_.size(), 0);  // bytes of each rank's output
  for (std::size_t source = 0; source < contributions_.size(); ++source) {
    std::int64_t offset = 0;
    for (std::size_t destination = 0; destination < contributions_.size(); ++destination) {
      const std::int64_t bytes = contributions_[source]->to[destination] * element;
      pair_parts_.push_back({.source = source,
                             .destination = destination,
                             .source_offset = offset,
                             .destination_offset = filled[destination],
                             .bytes = bytes,
                             .first_piece = pieces_});
      pieces_ += pieces_in(bytes);
      bytes_ += bytes;
      offset += bytes;
      filled[destination] += bytes;
    }
  }
}

Operation::Piece Operation::pair_piece_of(std::int64_t index) const {
  const PairPart& part =
      *(std::ranges::upper_bound(pair_parts_, index, {}, &PairPart::first_piece) - 1);
  const std::int64_t begin = (index - part.first_piece) * kPieceBytes;
  return {.first_source = part.source,
          .source_offset = part.source_offset + begin,
          .first_destination = part.destination,
          .destination_offset = part.destination_offset + begin,
          .bytes = std::min(kPieceBytes, part.bytes - begin)};
}

Operation::Piece Operation::piece_of(std::int64_t index) const {
  if (kind() == OperationKind::kAllToAll) return pair_piece_of(index);
  const std::size_t all = group_->ranks.size();
  const std::int64_t part = index / pieces_of_part_;
  const std::int64_t begin = (index % pieces_of_part_) * kPieceBytes;
  Piece piece{.source_offset = begin,
              .destination_offset = begin,
              .bytes = std::min(kPieceBytes, part_bytes_ - begin)};
  switch (kind()) {
    case OperationKind::kAllReduce:
      piece.sources = piece.destinations = all;
      break;
    case OperationKind::kReduceScatter:
      piece.sources = all;
      piece.source_offset += part * part_bytes_;
      piece.first_destination = static_cast<std::size_t>(part);
      break;
    case OperationKind::kAllGather:
      piece.first_source = static_cast<std::size_t>(part);
      piece.destinations = all;
      piece.destination_offset += part * part_bytes_;
      break;
    case OperationKind::kBroadcast:
      piece.first_source = static_cast<std::size_t>(first_call_.root);
      piece.destinations = all;
      break;
    default:  // a message
      piece.first_destination = 1;
      break;
  }
  return piece;
}

bool Operation::do_pieces(std::int64_t limit, const std::atomic<bool>& stop,
                          ReadCounters bytes_read) {
  bool finished = false;
  for (std::int64_t i = 0; i < limit && !stop.load(std::memory_order_seq_cst); ++i) {
    const std::int64_t piece = next_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces_) break;
    do_piece(piece, bytes_read);
    // Acquire too: the thread that finishes the last piece must see the results of all others.
    if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == pieces_) {
      done_.store(true, std::memory_order_release);
      finished = true;
    }
  }
  return finished;
}

void Operation::do_piece(std::int64_t index, ReadCounters bytes_read) const {
  const Piece piece = piece_of(index);
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> destinations;
  for (std::size_t i = 0; i < piece.sources; ++i) {
    const std::size_t member = piece.first_source + i;
    sources.push_back(contributions_[member]->input + piece.source_offset);
    const auto rank = static_cast<std::size_t>(group_->ranks[member]);
    bytes_read[rank].fetch_add(piece.bytes, std::memory_order_relaxed);
  }
  for (std::size_t i = 0; i < piece.destinations; ++i) {
    destinations.push_back(contributions_[piece.first_destination + i]->output +
                           piece.destination_offset);
  }
  if (sources.size() > 1) {
    const DType dtype = first_call_.dtype;
    reduce({.from = dtype, .to = dtype, .reduction = first_call_.reduction, .block = sum_block_},
           sources, destinations, 0, piece.bytes / size_of(dtype));
    return;
  }
  for (std::byte* destination : destinations) {
    if (destination == sources[0]) continue;
    std::memcpy(destination, sources[0], static_cast<std::size_t>(piece.bytes));
  }
}

}  // namespace phalanx::local
