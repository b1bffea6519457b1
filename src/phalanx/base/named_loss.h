#pragma once
// A loss or an evaluation score with its name in logs.

#include <string>

namespace phalanx {

struct NamedLoss {
  std::string name;  // "lm loss"
  double value = 0;
  std::string title = {};  // for people, if it differs from the name; empty: the name
};
inline const std::string& title_of(const NamedLoss& loss) {
  return loss.title.empty() ? loss.name : loss.title;
}

}  // namespace phalanx
