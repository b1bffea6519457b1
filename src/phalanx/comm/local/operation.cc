#include "phalanx/comm/local/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "phalanx/comm/local/reduce.h"

namespace phalanx::local {
namespace {

// Large enough to claim cheaply, small enough for a fast cache and for an even share of the work. A
// multiple of every element size.
constexpr std::int64_t kPieceBytes = 64 << 10;

}  // namespace

std::string describe(const Call& call, std::size_t member) {
  const std::string data = fmt::format("{} x {}", name_of(call.dtype), call.count);
  switch (call.kind) {
    case OperationKind::kAllReduce:
      return fmt::format("all_reduce({}, {})", name_of(call.reduction), data);
    case OperationKind::kReduceScatter:
      return fmt::format("reduce_scatter({}, {})", name_of(call.reduction), data);
    case OperationKind::kAllGather:
      return fmt::format("all_gather({})", data);
    case OperationKind::kBroadcast:
      return fmt::format("broadcast({}, root {})", data, call.root);
    case OperationKind::kAllToAll:
      return fmt::format("all_to_all({})", name_of(call.dtype));
    case OperationKind::kBarrier:
      return "barrier";
    case OperationKind::kSplit:
      return fmt::format("split({})", call.split);
    case OperationKind::kMessage:
      return fmt::format("{}({}, key {:#x})", member == 0 ? "send" : "receive", data, call.key);
  }
  return {};
}

Operation::Operation(std::shared_ptr<const Group> group, std::uint64_t number, Call first_call)
    : group_(std::move(group)),
      number_(number),
      first_call_(std::move(first_call)),
      contributions_(group_->ranks.size()) {}

std::string Operation::label() const {
  if (kind() == OperationKind::kMessage) {
    return fmt::format("{}: message {} ({} x {}, key {:#x}) from rank {} to rank {}", group_->name,
                       number_, name_of(first_call_.dtype), first_call_.count, first_call_.key,
                       group_->ranks[0], group_->ranks[1]);
  }
  return fmt::format("{}: {}, call {}", group_->name, describe(first_call_, 0), number_);
}

std::vector<int> Operation::missing_ranks() const {
  std::vector<int> ranks;
  for (std::size_t member = 0; member < contributions_.size(); ++member) {
    if (!contributions_[member]) ranks.push_back(group_->ranks[member]);
  }
  return ranks;
}

std::string Operation::missing() const {
  const std::vector<int> ranks = missing_ranks();
  if (ranks.empty()) return {};
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

void Operation::mismatch(std::size_t member, const std::string& theirs, std::size_t other,
                         const std::string& others) const {
  throw CommError("{}: {} {}: rank {} calls {} where rank {} calls {}", group_->name,
                  kind() == OperationKind::kMessage ? "message" : "call", number_,
                  group_->ranks[member], theirs, group_->ranks[other], others);
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
  const auto part = [](std::string_view verb, std::int64_t count, int rank) {
    return fmt::format("all_to_all({} {} elements {} rank {})", verb, count,
                       verb == "gives" ? "to" : "from", rank);
  };
  for (std::size_t other = 0; other < contributions_.size(); ++other) {
    if (!contributions_[other]) continue;
    const Contribution& theirs = *contributions_[other];
    const int my_rank = group_->ranks[member], their_rank = group_->ranks[other];
    if (mine.to[other] != theirs.from[member]) {
      mismatch(member, part("gives", mine.to[other], their_rank), other,
               part("takes", theirs.from[member], my_rank));
    }
    if (mine.from[other] != theirs.to[member]) {
      mismatch(member, part("takes", mine.from[other], their_rank), other,
               part("gives", theirs.to[member], my_rank));
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
    // Acquire too: whoever finishes the last piece has seen all others'.
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
    reduce(first_call_.dtype, first_call_.reduction, sources, destinations, begin, bytes);
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
