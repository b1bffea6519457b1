#pragma once
// The texts of the detector's verdicts and reports, made from the states of all ranks.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/rendezvous/observed_rank.h"

namespace phalanx::rendezvous {

using States = std::vector<ObservedRank>;

// `text` without line ends and control characters of a terminal, cut to `most` bytes.
std::string one_line(std::string_view text, std::size_t most = 300);
// "rank 5", "ranks 0-3, 6, 7", "ranks 0, 2, ... and 40 more".
std::string ranks_text(std::vector<int> ranks);
// "rank 3 (host n07, pid 4711)"; "host n07".
std::string rank_text(const ObservedRank& state);
std::string host_text(const ObservedRank& state);
// "all_reduce(sum, f32 x 100), call 12 of group tp".
std::string call_text(const CommPlace& place);
// What it is busy with and the file that it reads or writes; empty if neither.
std::string activity_text(const ObservedRank& state);
// "after iteration 12, waiting in all_gather(f32 x 88), call 12 of group tp, for rank 5".
std::string position_text(const ObservedRank& state);

// The `reason` of a verdict. `culprits` is not empty; `whole_host`: it holds all ranks of a host.
std::string lost_reason(const States& states, const std::vector<int>& culprits, bool whole_host,
                        const std::string& how, ObservedRank::Clock::time_point now);
std::string silence_reason(const States& states, const std::vector<int>& culprits, bool whole_host,
                           ObservedRank::Clock::time_point now);
std::string stillness_reason(const States& states, const std::vector<int>& culprits,
                             ObservedRank::Clock::time_point now);

// The `report` of a verdict: a line for each rank, the culprits first; at most 64, then a count.
std::string report_text(const States& states, const std::vector<int>& culprits,
                        ObservedRank::Clock::time_point now);

}  // namespace phalanx::rendezvous
