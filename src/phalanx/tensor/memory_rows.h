#pragma once
// The rows of a rank's memory. Each row is an arena of its own; plans, high-water checks, tables,
// JSON, reports and pictures walk this list. A new row is one line of it.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

namespace phalanx {

// What a user can change so that a row becomes smaller.
enum class SmallerBy : std::uint8_t {
  kModel,
  kSharding,   // over data-parallel ranks, else the model
  kRecompute,  // else the microbatch or the sequence
  kMicrobatch,
  kSequence,
  kSnapshot  // --snapshot-fraction
};

struct MemoryRowInfo {
  std::string_view key;     // in JSON, and here in the code
  std::string_view name;    // in tables for people
  std::string_view colour;  // one of drawing/palette.h
  SmallerBy smaller_by = SmallerBy::kModel;
  bool is_optional = false;  // tables leave it out where it is empty
  bool is_on_host = false;   // on whatever device a rank computes
};

// Behind each line: what lies there, and which room allocates it.
inline constexpr auto kMemoryRows = std::to_array<MemoryRowInfo>({
    // clang-format off
    {"parameters", "parameters", "#5b92e5"},  // the weights that passes read: data_parallel
    {"main_parameters", "main parameters", "#cfdffa", SmallerBy::kSharding},  // fp32: data_parallel
    {"gradients", "gradients", "#f0933c"},  // main gradients: data_parallel
    {"optimizer", "optimizer", "#57b068", SmallerBy::kSharding},  // moments: optim
    {"saved", "saved activations", "#8f76bd", SmallerBy::kRecompute},  // and what is lent: pipeline
    {"workspace", "workspace", "#d2d2d2", SmallerBy::kMicrobatch},  // scratch: ops; batches: rank
    {"communication", "communication", "#e3cf57", SmallerBy::kMicrobatch},  // data_parallel
    {"constants", "constants", "#9a9a9a", SmallerBy::kSequence},  // rotary tables, masks: nn
    {"staging", "staging of files", "#e08585", SmallerBy::kModel, true, true},  // offload, data_parallel
    {"answers", "answers while training", "#fddfbe", SmallerBy::kSequence, true},  // inference
    {"snapshot", "snapshot of a save", "#f6d3d3", SmallerBy::kSnapshot, true, true},  // saving
    // clang-format on
});

// A row by its key, which is looked up at compile time.
class MemoryRow {
 public:
  consteval MemoryRow(const char* key)  // NOLINT(google-explicit-constructor): bytes["saved"]
      : index_(static_cast<std::size_t>(
            std::ranges::find(kMemoryRows, std::string_view(key), &MemoryRowInfo::key) -
            kMemoryRows.begin())) {
    if (index_ == kMemoryRows.size()) throw "no row has this key";
  }
  constexpr std::size_t index() const { return index_; }

 private:
  std::size_t index_;
};

struct MemoryBytes {
  std::array<std::int64_t, kMemoryRows.size()> rows = {};

  std::int64_t& operator[](MemoryRow row) { return rows[row.index()]; }
  std::int64_t operator[](MemoryRow row) const { return rows[row.index()]; }
  std::int64_t total() const { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }
  // The larger of the two, row by row.
  void raise_to(const MemoryBytes& other) {
    std::ranges::transform(rows, other.rows, rows.begin(), std::ranges::max);
  }

  friend bool operator==(const MemoryBytes&, const MemoryBytes&) = default;
};

}  // namespace phalanx
