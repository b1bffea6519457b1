#pragma once
// A choice of output streams, in torchrun's form: "3" (for all ranks) or "0:1,1:3" (by local rank).
// 0 is none, 1 standard output, 2 standard error, 3 both.

#include <cstdint>
#include <map>
#include <string>

namespace phalanx::launch {

class StreamChoice {
 public:
  StreamChoice() = default;
  // UsageError that names the flag.
  static StreamChoice parse(const std::string& flag, const std::string& text);

  bool takes_output(int local_rank) const { return (bits_of(local_rank) & 1U) != 0; }
  bool takes_error(int local_rank) const { return (bits_of(local_rank) & 2U) != 0; }
  // The largest local rank that is named; -1: none is.
  int largest_rank() const { return of_rank_.empty() ? -1 : of_rank_.rbegin()->first; }

 private:
  unsigned bits_of(int local_rank) const;

  unsigned of_others_ = 0;
  std::map<int, unsigned> of_rank_;
};

}  // namespace phalanx::launch
