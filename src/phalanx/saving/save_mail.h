#pragma once
// The texts that the ranks leave for each other during a save in parts.
//
//   where        the leader: the directory for the parts; "{}": the save has failed before that
//   part of r    rank r: its part is on the disk, with its sizes and digest; or its error
//   sign of r    rank r, from time to time: how far it is
//   verdict      the leader: the checkpoint is in its place; or why not

#include <filesystem>
#include <string>

#include "phalanx/rendezvous/mailbox.h"

namespace phalanx {

class SaveMail {
 public:
  // `epoch` is the save's, `directory` the save directory. The mailbox must outlive this.
  SaveMail(Mailbox& box, const std::filesystem::path& directory, const std::string& epoch);

  Mailbox& box() const { return *box_; }
  std::string where() const { return prefix_ + "where"; }
  std::string verdict() const { return prefix_ + "verdict"; }
  std::string part(int rank) const { return prefix_ + "part/" + std::to_string(rank); }
  std::string sign(int rank) const { return prefix_ + "sign/" + std::to_string(rank); }

 private:
  Mailbox* box_;
  std::string prefix_;
};

}  // namespace phalanx
