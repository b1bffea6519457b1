#pragma once
// What the detector's verdicts and reports say, from the states of all ranks.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/rendezvous/rank_state.h"

namespace phalanx::rendezvous {

using States = std::vector<RankState>;

// Without what would end the line or steer a terminal, and not longer than `most` bytes.
std::string one_line(std::string_view text, std::size_t most = 300);
// "rank 5", "ranks 0-3, 6, 7", "ranks 0, 2, ... and 40 more".
std::string ranks_text(std::vector<int> ranks);
// "rank 3 (host n07, pid 4711)"; "host n07".
std::string rank_text(const RankState& state);
std::string host_text(const RankState& state);
// "all_reduce(sum, f32 x 100), call 12 of group tp".
std::string call_text(const CommPlace& at);
// What it is busy with and the file that it is in; empty where it is neither.
std::string activity_text(const RankState& state);
// "after iteration 12, waiting in all_gather(f32 x 88), call 12 of group tp, for rank 5".
std::string position_text(const RankState& state);

// `culprits` are not empty; all of `whole_host`'s ranks where that is set.
std::string lost_reason(const States& states, const std::vector<int>& culprits, bool whole_host,
                        const std::string& how, RankState::Clock::time_point now);
std::string silence_reason(const States& states, const std::vector<int>& culprits, bool whole_host,
                           RankState::Clock::time_point now);
std::string stillness_reason(const States& states, const std::vector<int>& culprits,
                             RankState::Clock::time_point now);

// A line for each rank, the culprits first; past 64 of them a count.
std::string report_text(const States& states, const std::vector<int>& culprits,
                        RankState::Clock::time_point now);

}  // namespace phalanx::rendezvous
