#pragma once
// What a program did, operation by operation: names, floating-point operations, bytes and time;
// message by message; and transfer by transfer, to and from files. Ops, communicators and files
// write here while they are enqueued; the planner and the benchmarks read it.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
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
  DType dtype = DType::kF32;      // of the factors, of products and attention
  ProductShape product = {};      // of an op that is a product
  AttentionShape attention = {};  // of an op that is attention
};

// One message as one rank sees it.
struct Message {
  std::string group;       // the communicator's name: "tp", "dp"
  std::string_view op;     // a string literal: "all_reduce"
  std::int64_t bytes = 0;  // the payload that this rank contributes; 0 where it only receives

  friend bool operator==(const Message&, const Message&) = default;
};

// What one rank writes to a file that holds its state on a disk, or reads from it.
struct Transfer {
  std::string place;       // the file's name: "optimizer"
  std::string_view op;     // a string literal: "read", "write"
  std::int64_t bytes = 0;  // the payload, without padding

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

  void add(const std::vector<Entry>& entries, std::int64_t times = 1) {
    for (const Entry& entry : entries) {
      Total& total = by_key_[{where(entry), std::string(entry.op)}];
      total.count += times;
      total.bytes += times * entry.bytes;
    }
  }
  const std::map<Key, Total>& by_key() const { return by_key_; }
  friend bool operator==(const TrafficTotals&, const TrafficTotals&) = default;

 private:
  static const std::string& where(const Message& message) { return message.group; }
  static const std::string& where(const Transfer& transfer) { return transfer.place; }

  std::map<Key, Total> by_key_;
};
using MessageTotals = TrafficTotals<Message>;
using TransferTotals = TrafficTotals<Transfer>;

class Recorder {
 public:
  struct Record {
    int stream;
    OpCost cost;
    double seconds;  // that enqueueing took: on the CPU, the operation itself
  };

  void record(int stream, const OpCost& cost, double seconds) {
    records_.push_back({stream, cost, seconds});
  }
  void record(Message message) {
    messages_.push_back(std::move(message));
    ops_before_.push_back(records_.size());
  }
  void record(Transfer transfer) { transfers_.push_back(std::move(transfer)); }
  const std::vector<Record>& records() const { return records_; }
  const std::vector<Message>& messages() const { return messages_; }
  const std::vector<Transfer>& transfers() const { return transfers_; }
  // How many operations were enqueued before a message started.
  std::size_t ops_before(std::size_t message) const { return ops_before_[message]; }
  std::int64_t flops() const {
    std::int64_t sum = 0;
    for (const auto& record : records_) sum += record.cost.flops;
    return sum;
  }
  void clear() {
    records_.clear();
    messages_.clear();
    transfers_.clear();
    ops_before_.clear();
  }

 private:
  std::vector<Record> records_;
  std::vector<Message> messages_;
  std::vector<Transfer> transfers_;
  std::vector<std::size_t> ops_before_;  // by message
};

}  // namespace phalanx
