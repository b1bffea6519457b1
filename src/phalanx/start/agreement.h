#pragma once
// How processes work together before their ranks run: they exchange texts in rounds, in the same
// order. An error of one process is its text in the next round, and all end with the same error.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/gather_texts.h"
#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

// Thrown where the run was asked to stop before its ranks had begun: nothing is lost.
struct StoppedEarly {};

class Agreement {
 public:
  struct Means {
    GatherTexts gather;
    // The first rank's text, for all; it may be long.
    std::function<std::string(std::string of_first)> broadcast;
    // Whether a process has failed, so that there will be no more rounds.
    std::function<bool()> is_over;
  };
  // One process a rank.
  Agreement(Means means, std::vector<RankPlace> places);

  std::string broadcast(std::string of_first);
  std::vector<std::string> gather(std::string mine);
  // `preparation` uses the two calls above. An Error or StoppedEarly of one process becomes that of
  // all processes; of several it is the lowest rank's. It names that rank and its host. Other
  // exceptions are not passed on.
  void prepare(const std::function<void()>& preparation);

 private:
  std::vector<std::string> round(std::string mine);
  void tell_others(const std::string& text);

  Means means_;
  std::vector<RankPlace> places_;
  bool all_know_ = false;  // how the preparation ends
};

}  // namespace phalanx
