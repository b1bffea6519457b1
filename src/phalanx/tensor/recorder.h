#pragma once
// What a program did, operation by operation: names, floating-point operations, bytes and time. Ops
// (and later messages) write here while they are enqueued; the planner and the benchmarks read it.

#include <cstdint>
#include <string_view>
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
  const std::vector<Record>& records() const { return records_; }
  std::int64_t flops() const {
    std::int64_t sum = 0;
    for (const auto& record : records_) sum += record.cost.flops;
    return sum;
  }
  void clear() { records_.clear(); }

 private:
  std::vector<Record> records_;
};

}  // namespace phalanx
