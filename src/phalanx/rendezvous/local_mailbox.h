#pragma once
// The mailbox of ranks that are threads of one process.

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/rendezvous/mailbox.h"

namespace phalanx {

class LocalMailbox final : public Mailbox {
 public:
  void post(const std::string& name, std::string text) override;
  std::string read(const std::string& name) override;
  std::optional<std::string> read_unless(const std::stop_token& stop,
                                         const std::string& name) override;
  std::optional<std::string> take(const std::string& name) override;

  // A rank has failed: every call throws this error from now on, those that wait at once. The first
  // error counts.
  void fail(const Error& error);

 private:
  void throw_failure() const;

  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::map<std::string, std::string> texts_{};
  std::size_t bytes_ = 0;
  std::optional<Error> failure_{};
};

}  // namespace phalanx
