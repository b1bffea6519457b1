#pragma once
// The texts that the launchers of a run exchange, by stage, as one of them knows them. It has no
// thread and no clock: node_board.h makes the rounds.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace phalanx::launch {

class StageTexts {
 public:
  explicit StageTexts(int nodes);

  // As in NodeBoard.
  void post(int stage, std::string text);
  std::optional<std::vector<std::string>> texts(int stage) const;
  std::vector<std::string> latest(int stage) const;
  const std::string& lost() const { return lost_; }

  // This launcher has nothing more to say.
  void say_goodbye();
  // No more rounds are possible.
  void break_off(const std::string& why);

  // What it says in the next round.
  std::string mine() const;
  struct Round {
    bool has_changed = false;
    bool all_gone = false;  // all have said goodbye
  };
  // Takes what all have said in a round, by node. DataError if it cannot be read.
  Round on_round(const std::vector<std::string>& texts);

 private:
  int nodes_;
  int stage_ = -1;
  std::string text_{};
  std::map<int, std::map<int, std::string>> seen_{};  // stage, node
  std::vector<int> stages_;                           // by node, the last seen
  std::string lost_{};
};

}  // namespace phalanx::launch
