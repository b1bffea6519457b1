#pragma once
// What a program did, in its order: ops, with their operations, bytes and time; messages, and
// transfers to and from files, where they begin and where the program waits for them. Ops,
// communicators and files write here while they are enqueued; the planner and the benchmarks read
// it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/dtype.h"

namespace phalanx {

// A matrix product [m, k] x [k, n], `batch` times; all zeros where there is none. Rows of experts
// are counted together, as m, or as k of a weight gradient, and batch is 1: how many rows each
// expert has is data, so only their sum is known.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0, batch = 0;
  int m_groups = 1;  // experts that share the rows m
  int k_groups = 1;  // experts that share the rows k

  std::int64_t flops() const { return 2 * m * n * k * batch; }
  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

// Attention of `heads` query heads; all zeros where there is none. `seen` is the share of the pairs
// of a query and a key that the mask leaves, as far as it is known without a look at the data: 1/2
// of a causal mask over as many keys as queries.
struct AttentionShape {
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, head_size = 0;
  double seen = 0.0;

  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

// What one operation needs at least: a multiply-add counts as two operations; every operand is
// moved once.
struct OpCost {
  std::string_view name;   // a string literal
  std::int64_t flops = 0;  // of matrix products
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  // Of the factors, of products and attention; of other ops that of most bytes that they move.
  DType dtype = DType::kF32;
  ProductShape product = {};      // of an op that is a product
  AttentionShape attention = {};  // of an op that is attention
};

// The ranks that a communicator joins: numbers of the world, in the order of the group.
struct MessageGroup {
  std::string name;  // "tp", "dp"
  std::vector<int> ranks;

  friend bool operator==(const MessageGroup&, const MessageGroup&) = default;
};

// One operation.
struct OpRun {
  int stream = 0;
  OpCost cost;
  double seconds = 0.0;  // that enqueueing took: on the CPU, the operation itself
};

// One message begins, as one rank sees it.
struct MessageBegun {
  std::shared_ptr<const MessageGroup> group;
  std::string_view op;            // a string literal: "all_reduce"
  std::int64_t bytes = 0;         // that this rank contributes; 0 where it only receives
  std::int64_t result_bytes = 0;  // that this rank has of it at the end; 0 where it only sends
  int peer = -1;           // a rank of the group: of a send or receive the other one, or the root
  std::uint64_t key = 0;   // of a send or receive: what is in it
  std::uint64_t work = 0;  // messages that are awaited together have one number
};

// This rank begins to write to a file that holds its state on a disk, or to read from it.
struct TransferBegun {
  std::string place;       // the file's name: "optimizer"
  std::string_view op;     // a string literal: "read", "write"
  std::int64_t bytes = 0;  // the payload, without padding
  std::uint64_t work = 0;
};

// The program waits for the messages or the transfer of this number, for the first time.
struct Awaited {
  std::uint64_t work = 0;
  double seconds = 0.0;  // that the host waited
};

using TraceEvent = std::variant<OpRun, MessageBegun, TransferBegun, Awaited>;
using Trace = std::vector<TraceEvent>;

// Calls look(event) for all events of one kind, in their order.
template <typename Kind, typename Look>
void for_each_event(std::span<const TraceEvent> events, const Look& look) {
  for (const TraceEvent& event : events) {
    if (const Kind* found = std::get_if<Kind>(&event)) look(*found);
  }
}

// Where a message goes, or a transfer, and how much it moves.
struct Message {
  std::string group;
  std::string_view op;
  std::int64_t bytes = 0;

  friend bool operator==(const Message&, const Message&) = default;
};
struct Transfer {
  std::string place;
  std::string_view op;
  std::int64_t bytes = 0;

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// Messages or transfers added up by where they go and op.
template <typename Entry>
class TrafficTotals {
 public:
  struct Total {
    std::int64_t count = 0;
    std::int64_t bytes = 0;
    friend bool operator==(const Total&, const Total&) = default;
  };
  using Key = std::pair<std::string, std::string>;  // group or place, op

  void add(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) add({where(entry), std::string(entry.op)}, 1, entry.bytes);
  }
  void add(const TrafficTotals& other, std::int64_t times = 1) {
    for (const auto& [key, total] : other.by_key_) {
      add(key, times * total.count, times * total.bytes);
    }
  }
  const std::map<Key, Total>& by_key() const { return by_key_; }
  friend bool operator==(const TrafficTotals&, const TrafficTotals&) = default;

 private:
  static const std::string& where(const Message& message) { return message.group; }
  static const std::string& where(const Transfer& transfer) { return transfer.place; }

  void add(const Key& key, std::int64_t count, std::int64_t bytes) {
    Total& total = by_key_[key];
    total.count += count;
    total.bytes += bytes;
  }

  std::map<Key, Total> by_key_;
};
using MessageTotals = TrafficTotals<Message>;
using TransferTotals = TrafficTotals<Transfer>;

class Recorder {
 public:
  Recorder() = default;
  // What began while it recorded is recorded where it is awaited, as long as the recorder lives.
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  Recorder(Recorder&&) = default;
  Recorder& operator=(Recorder&&) = default;

  void record(TraceEvent event) { trace_->push_back(std::move(event)); }
  // The number of what begins next; the first is 1. None comes twice, also after clear().
  std::uint64_t next_work() { return ++last_work_; }
  std::weak_ptr<Trace> trace() const { return trace_; }

  const Trace& events() const { return *trace_; }
  // The messages alone, and the transfers alone.
  std::vector<Message> messages() const {
    std::vector<Message> found;
    for_each_event<MessageBegun>(*trace_, [&](const MessageBegun& message) {
      found.push_back({message.group->name, message.op, message.bytes});
    });
    return found;
  }
  std::vector<Transfer> transfers() const {
    std::vector<Transfer> found;
    for_each_event<TransferBegun>(*trace_, [&](const TransferBegun& transfer) {
      found.push_back({transfer.place, transfer.op, transfer.bytes});
    });
    return found;
  }
  std::int64_t flops() const {
    std::int64_t sum = 0;
    for_each_event<OpRun>(*trace_, [&](const OpRun& run) { sum += run.cost.flops; });
    return sum;
  }
  void clear() { trace_->clear(); }

 private:
  std::shared_ptr<Trace> trace_ = std::make_shared<Trace>();
  std::uint64_t last_work_ = 0;
};

}  // namespace phalanx
