#pragma once
// What a program did, operation by operation: names, floating-point operations, bytes and time; and
// message by message. Ops and communicators write here while they are enqueued; the planner and the
// benchmarks read it.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phalanx {

// What one operation needs at least: a multiply-add counts as two operations; every operand is
// moved once.
struct OpCost {
  std::string_view name;   // a string literal
  std::int64_t flops = 0;  // of matrix products
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
};

// One message as one rank sees it.
struct Message {
  std::string group;       // the communicator's name: "tp", "dp"
  std::string_view op;     // a string literal: "all_reduce"
  std::int64_t bytes = 0;  // the payload that this rank contributes; 0 where it only receives

  friend bool operator==(const Message&, const Message&) = default;
};

// Messages added up by group and op.
class MessageTotals {
 public:
  struct Total {
    std::int64_t count = 0;
    std::int64_t bytes = 0;
    friend bool operator==(const Total&, const Total&) = default;
  };
  using Key = std::pair<std::string, std::string>;  // group, op

  void add(const std::vector<Message>& messages, std::int64_t times = 1) {
    for (const Message& message : messages) {
      Total& total = by_key_[{message.group, std::string(message.op)}];
      total.count += times;
      total.bytes += times * message.bytes;
    }
  }
  const std::map<Key, Total>& by_key() const { return by_key_; }
  friend bool operator==(const MessageTotals&, const MessageTotals&) = default;

 private:
  std::map<Key, Total> by_key_;
};

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
  const std::vector<Record>& records() const { return records_; }
  const std::vector<Message>& messages() const { return messages_; }
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
    ops_before_.clear();
  }

 private:
  std::vector<Record> records_;
  std::vector<Message> messages_;
  std::vector<std::size_t> ops_before_;  // by message
};

}  // namespace phalanx
