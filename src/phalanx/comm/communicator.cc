#include "phalanx/comm/communicator.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "phalanx/comm/comm_error.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {
namespace {

constexpr std::array<std::string_view, 3> kReductionNames = {"sum", "max", "min"};

// Operands of one call of one group, for messages.
class Checker {
 public:
  Checker(const std::string& group, std::string_view op) : group_(group), op_(op) {}

  void dense(std::string_view operand, const Tensor& tensor) const {
    PHALANX_CHECK(tensor.defined(), "{}: {}: no {}", group_, op_, operand);
    PHALANX_CHECK(tensor.contiguous(), "{}: {}: {} {} is not contiguous", group_, op_, operand,
                  tensor.shape.to_string());
  }
  void dense_pair(const Tensor& output, const Tensor& input) const {
    dense("output", output);
    dense("input", input);
    PHALANX_CHECK(output.dtype == input.dtype, "{}: {}: output is {}, input {}", group_, op_,
                  name_of(output.dtype), name_of(input.dtype));
  }
  void parts(std::string_view whole_name, const Tensor& whole, std::string_view part_name,
             const Tensor& part, int size) const {
    PHALANX_CHECK(whole.count() == part.count() * size,
                  "{}: {}: {} {} is not {} times {} {}, one for each rank", group_, op_, whole_name,
                  whole.shape.to_string(), size, part_name, part.shape.to_string());
  }
  // One part may lie in the whole, but only where it belongs.
  void apart_or_own_part(const Tensor& whole, const Tensor& part, int rank) const {
    PHALANX_CHECK(!overlap(whole, part) || part.offset == whole.offset + rank * part.bytes(),
                  "{}: {}: output and input overlap elsewhere than in this rank's part", group_,
                  op_);
  }
  void apart(const Tensor& a, const Tensor& b) const {
    PHALANX_CHECK(!overlap(a, b), "{}: {}: output and input overlap", group_, op_);
  }
  void in_group(std::string_view what, int rank, int size) const {
    PHALANX_CHECK(rank >= 0 && rank < size, "{}: {}: {} {} in a group of {}", group_, op_, what,
                  rank, size);
  }
  void counts(std::string_view name, std::span<const std::int64_t> counts, int size,
              const Tensor& tensor) const {
    PHALANX_CHECK(std::ssize(counts) == size, "{}: {}: {} counts `{}` in a group of {}", group_,
                  op_, counts.size(), name, size);
    PHALANX_CHECK(std::ranges::all_of(counts, [](std::int64_t count) { return count >= 0; }),
                  "{}: {}: negative count in `{}`", group_, op_, name);
    const auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    PHALANX_CHECK(sum == tensor.count(), "{}: {}: the counts `{}` add up to {}, not to all of {}",
                  group_, op_, name, sum, tensor.shape.to_string());
  }

 private:
  static bool overlap(const Tensor& a, const Tensor& b) {
    return a.arena == b.arena && a.bytes() > 0 && b.bytes() > 0 &&
           a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
  }

  const std::string& group_;
  std::string_view op_;
};

// A communicator of a single rank.
void copy_unless_same(Context& context, const Tensor& output, const Tensor& input) {
  if (output.arena == input.arena && output.offset == input.offset) return;
  const Shape flat{input.count()};
  ops::copy(context, {.destination = output.reshape(flat), .source = input.reshape(flat)});
}

// One call of a group: its messages as they begin, and the wait for them.
class Record {
 public:
  Record(const Context& context, const std::shared_ptr<const MessageGroup>& group)
      : recorder_(context.recorder), group_(group) {
    if (recorder_ != nullptr) number_ = recorder_->next_work();
  }

  void begin(std::string_view op, std::int64_t bytes, std::int64_t result_bytes, int peer = -1,
             std::uint64_t key = 0) const {
    if (recorder_ == nullptr) return;
    recorder_->record(MessageBegun{.group = group_,
                                   .op = op,
                                   .bytes = bytes,
                                   .result_bytes = result_bytes,
                                   .peer = peer,
                                   .key = key,
                                   .work = number_});
  }
  Work await(Work work) const { return recorded(recorder_, number_, std::move(work)); }

 private:
  Recorder* recorder_;
  const std::shared_ptr<const MessageGroup>& group_;
  std::uint64_t number_ = 0;
};

using Direction = PointToPoint::Direction;

std::int64_t count_of(std::span<const PointToPoint> messages, int peer, Direction direction) {
  return std::ranges::count_if(messages, [&](const PointToPoint& message) {
    return message.peer == peer && message.direction == direction;
  });
}

// A rank alone: its k-th send meets its k-th receive.
void exchange_with_oneself(Context& context, const std::string& group,
                           std::span<const PointToPoint> messages) {
  auto receive = messages.begin();
  for (const auto& send : messages) {
    if (send.direction != Direction::kSend) continue;
    while (receive->direction != Direction::kReceive) ++receive;
    if (receive->key != send.key || receive->tensor.dtype != send.tensor.dtype ||
        receive->tensor.count() != send.tensor.count()) {
      throw CommError(
          ErrorCode::kInternal, {.rank = -1, .group = group, .operation = "exchange"},
          fmt::format("{}: a rank sends itself {} x {}, key {:#x}, and receives {} x {}, key {:#x}",
                      group, name_of(send.tensor.dtype), send.tensor.count(), send.key,
                      name_of(receive->tensor.dtype), receive->tensor.count(), receive->key));
    }
    copy_unless_same(context, receive->tensor, send.tensor);
    ++receive;
  }
}

}  // namespace

std::string_view name_of(Reduction reduction) {
  return kReductionNames[static_cast<std::size_t>(reduction)];
}

Work Communicator::all_reduce(Context& context, const Tensor& tensor, Reduction reduction) {
  const Checker check(name(), "all_reduce");
  check.dense("tensor", tensor);
  if (size() == 1) return {};
  const Record record(context, group_);
  record.begin("all_reduce", tensor.bytes(), tensor.bytes());
  return record.await(start_all_reduce(context, tensor, reduction));
}

Work Communicator::reduce_scatter(Context& context, const Tensor& output, const Tensor& input,
                                  Reduction reduction) {
  const Checker check(name(), "reduce_scatter");
  check.dense_pair(output, input);
  check.parts("input", input, "output", output, size());
  check.apart_or_own_part(input, output, rank_);
  if (size() == 1) {
    copy_unless_same(context, output, input);
    return {};
  }
  const Record record(context, group_);
  record.begin("reduce_scatter", input.bytes(), output.bytes());
  return record.await(start_reduce_scatter(context, output, input, reduction));
}

Work Communicator::all_gather(Context& context, const Tensor& output, const Tensor& input) {
  const Checker check(name(), "all_gather");
  check.dense_pair(output, input);
  check.parts("output", output, "input", input, size());
  check.apart_or_own_part(output, input, rank_);
  if (size() == 1) {
    copy_unless_same(context, output, input);
    return {};
  }
  const Record record(context, group_);
  record.begin("all_gather", input.bytes(), output.bytes());
  return record.await(start_all_gather(context, output, input));
}

Work Communicator::broadcast(Context& context, const Tensor& tensor, int root) {
  const Checker check(name(), "broadcast");
  check.dense("tensor", tensor);
  check.in_group("root", root, size());
  if (size() == 1) return {};
  const Record record(context, group_);
  record.begin("broadcast", root == rank_ ? tensor.bytes() : 0, tensor.bytes(), root);
  return record.await(start_broadcast(context, tensor, root));
}

Work Communicator::all_to_all(Context& context, const Tensor& output, const Tensor& input) {
  PHALANX_CHECK(output.count() == input.count() && input.count() % size() == 0,
                "{}: all_to_all: output {} and input {} are not {} equal parts", name(),
                output.shape.to_string(), input.shape.to_string(), size());
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), input.count() / size());
  return all_to_all(context, output, counts, input, counts);
}

Work Communicator::all_to_all(Context& context, const Tensor& output,
                              std::span<const std::int64_t> from, const Tensor& input,
                              std::span<const std::int64_t> to) {
  const Checker check(name(), "all_to_all");
  check.dense_pair(output, input);
  check.counts("from", from, size(), output);
  check.counts("to", to, size(), input);
  if (size() == 1) {
    check.parts("output", output, "input", input, 1);
    copy_unless_same(context, output, input);
    return {};
  }
  check.apart(output, input);
  const Record record(context, group_);
  record.begin("all_to_all", input.bytes(), output.bytes());
  return record.await(start_all_to_all(context, output, from, input, to));
}

void Communicator::barrier(Context& context) {
  if (size() == 1) return;
  const Record record(context, group_);
  record.begin("barrier", 0, 0);
  start_barrier(context);
  record.await({}).wait(context.queue);
}

Work Communicator::send(Context& context, const Tensor& tensor, int peer, std::uint64_t key) {
  return exchange(context, std::array{PointToPoint{Direction::kSend, peer, key, tensor}});
}

Work Communicator::receive(Context& context, const Tensor& tensor, int peer, std::uint64_t key) {
  return exchange(context, std::array{PointToPoint{Direction::kReceive, peer, key, tensor}});
}

Work Communicator::exchange(Context& context, std::span<const PointToPoint> messages) {
  for (const auto& message : messages) {
    const Checker check(name(), message.direction == Direction::kSend ? "send" : "receive");
    check.dense("tensor", message.tensor);
    check.in_group("peer", message.peer, size());
  }
  const auto to_self = count_of(messages, rank_, Direction::kSend);
  const auto from_self = count_of(messages, rank_, Direction::kReceive);
  PHALANX_CHECK(to_self == from_self,
                "{}: rank {} sends itself {} messages and receives {} in one exchange", name(),
                rank_, to_self, from_self);
  if (messages.empty()) return {};
  if (size() == 1) {
    exchange_with_oneself(context, name(), messages);
    return {};
  }
  const Record record(context, group_);
  for (const auto& message : messages) {
    const std::int64_t bytes = message.tensor.bytes();
    if (message.direction == Direction::kSend) {
      record.begin("send", bytes, 0, message.peer, message.key);
    } else {
      record.begin("receive", 0, bytes, message.peer, message.key);
    }
  }
  return record.await(start_exchange(context, messages));
}

Communicator::Busy Communicator::busy(std::string what) {
  begin_busy(std::move(what));
  return Busy(*this);
}

}  // namespace phalanx
