#pragma once
// The texts of a mailbox whose names begin with a prefix: for users that choose the same names one
// after another.

#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "phalanx/rendezvous/mailbox.h"

namespace phalanx {

class PartOfMailbox final : public Mailbox {
 public:
  // `whole` must outlive this.
  PartOfMailbox(Mailbox& whole, std::string prefix) : whole_(whole), prefix_(std::move(prefix)) {}

  void post(const std::string& name, std::string text) override {
    whole_.post(prefix_ + name, std::move(text));
  }
  std::string read(const std::string& name) override { return whole_.read(prefix_ + name); }
  std::optional<std::string> read_unless(const std::stop_token& stop,
                                         const std::string& name) override {
    return whole_.read_unless(stop, prefix_ + name);
  }
  std::optional<std::string> take(const std::string& name) override {
    return whole_.take(prefix_ + name);
  }

 private:
  Mailbox& whole_;
  std::string prefix_;
};

}  // namespace phalanx
