#include "phalanx/comm/local/operation.h"

#include <algorithm>
#include <cstring>

#include "phalanx/comm/comm_error.h"
#include "phalanx/comm/reduce.h"

namespace phalanx::local {
namespace {

// Large enough to claim cheaply, small enough for a fast cache and for an even share of the work. A
// multiple of every element size.
constexpr std::int64_t kPieceBytes = 64 << 10;

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

void Operation::begin_segment(std::int64_t bytes) {
  segments_.push_back({.first_source = sources_.size(),
                       .sources = 0,
                       .first_destination = destinations_.size(),
                       .destinations = 0,
                       .bytes = bytes,
                       .first_piece = pieces_});
  pieces_ += (bytes + kPieceBytes - 1) / kPieceBytes;
}

void Operation::add_source(std::size_t member, std::int64_t offset) {
  sources_.push_back(contributions_[member]->input + offset);
  source_ranks_.push_back(group_->ranks[member]);
  ++segments_.back().sources;
  bytes_ += segments_.back().bytes;
}

void Operation::add_destination(std::size_t member, std::int64_t offset) {
  destinations_.push_back(contributions_[member]->output + offset);
  ++segments_.back().destinations;
}

// No piece writes what another piece reads, also where output and input share memory: what a
// segment writes of a rank's input, only that segment reads, range by range.
void Operation::make_ready() {
  const std::size_t ranks = group_->ranks.size();
  const std::int64_t bytes = first_call_.count * size_of(first_call_.dtype);
  const auto every = [&](auto add, std::int64_t offset) {
    for (std::size_t member = 0; member < ranks; ++member) (this->*add)(member, offset);
  };
  switch (kind()) {
    case OperationKind::kAllReduce:
      begin_segment(bytes);
      every(&Operation::add_source, 0);
      every(&Operation::add_destination, 0);
      break;
    case OperationKind::kReduceScatter:
      for (std::size_t part = 0; part < ranks; ++part) {
        begin_segment(bytes);
        every(&Operation::add_source, static_cast<std::int64_t>(part) * bytes);
        add_destination(part, 0);
      }
      break;
    case OperationKind::kAllGather:
      for (std::size_t part = 0; part < ranks; ++part) {
        begin_segment(bytes);
        add_source(part, 0);
        every(&Operation::add_destination, static_cast<std::int64_t>(part) * bytes);
      }
      break;
    case OperationKind::kBroadcast:
      begin_segment(bytes);
      add_source(static_cast<std::size_t>(first_call_.root), 0);
      every(&Operation::add_destination, 0);
      break;
    case OperationKind::kAllToAll:
      cut_all_to_all();
      break;
    case OperationKind::kMessage:
      begin_segment(bytes);
      add_source(0, 0);
      add_destination(1, 0);
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
      begin_segment(bytes);
      add_source(source, offset);
      add_destination(destination, filled[destination]);
      offset += bytes;
      filled[destination] += bytes;
    }
  }
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

void Operation::do_piece(std::int64_t piece, ReadCounters bytes_read) const {
  const auto after = std::ranges::upper_bound(segments_, piece, {}, &Segment::first_piece);
  const Segment& segment = *(after - 1);
  const std::int64_t begin = (piece - segment.first_piece) * kPieceBytes;
  const std::int64_t bytes = std::min(kPieceBytes, segment.bytes - begin);

  const std::span sources = std::span(sources_).subspan(segment.first_source, segment.sources);
  const std::span destinations =
      std::span(destinations_).subspan(segment.first_destination, segment.destinations);
  if (sources.size() > 1) {
    const DType dtype = first_call_.dtype;
    reduce({.from = dtype, .to = dtype, .reduction = first_call_.reduction, .block = sum_block_},
           sources, destinations, begin / size_of(dtype), bytes / size_of(dtype));
  } else {
    for (std::byte* destination : destinations) {
      if (destination == sources[0]) continue;
      std::memcpy(destination + begin, sources[0] + begin, static_cast<std::size_t>(bytes));
    }
  }
  for (std::size_t i = 0; i < segment.sources; ++i) {
    const auto rank = static_cast<std::size_t>(source_ranks_[segment.first_source + i]);
    bytes_read[rank].fetch_add(bytes, std::memory_order_relaxed);
  }
}

}  // namespace phalanx::local
