#pragma once
// How processes do something together before their ranks run: rounds of texts, one after the other
// in the same order. Where it ends with an error in one process, that is the next thing it says,
// and all end with the same error.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/rendezvous/rank_place.h"

namespace phalanx {

// Thrown where the run was asked to stop before its ranks had begun: nothing is lost.
struct StoppedEarly {};

class Agreement {
 public:
  struct Means {
    // The texts of all processes, by rank; every process at the same time.
    std::function<std::vector<std::string>(std::string mine)> gather;
    // The first rank's, for all. Long ones too.
    std::function<std::string(std::string of_first)> broadcast;
    // Whether a process has failed, so that there will be no more rounds.
    std::function<bool()> is_over;
  };
  // One process a rank.
  Agreement(Means means, std::vector<RankPlace> places);

  std::string broadcast(std::string of_first);
  std::vector<std::string> gather(std::string mine);
  // `preparation` uses the two calls above. An Error or StoppedEarly of one process becomes that of
  // all: of several the lowest rank's, whose number and host it names. Anything else is not told.
  void prepare(const std::function<void()>& preparation);

 private:
  std::vector<std::string> round(std::string mine);
  void tell(const std::string& text);

  Means means_;
  std::vector<RankPlace> places_;
  bool told_ = false;  // all know how it ends
};

}  // namespace phalanx
