#pragma once
// Texts that the members of a run leave for each other at the coordinator, by name.

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace phalanx {

// The longest text, and the most bytes of all texts that wait at the coordinator.
inline constexpr std::size_t kLongestMail = std::size_t{64} << 20;
inline constexpr std::size_t kMostMail = std::size_t{1} << 30;
inline constexpr std::size_t kLongestMailName = 256;

// Any thread of a member may call every function at any time. A caller that waits on the rank's own
// thread reports that to the watch (RankWatch::begin_wait): it knows which rank will post.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Leaves `text`, of at most kLongestMail bytes, under `name`, and returns when it is there for
  // all. UnavailableError (69) if there is a text of that name, or no room for another one.
  virtual void post(const std::string& name, std::string text) = 0;
  // The text under `name`; waits until it has come. It stays there for others.
  virtual std::string read(const std::string& name) = 0;
  // The same; nothing if `stop` is requested before the text has come.
  virtual std::optional<std::string> read_unless(const std::stop_token& stop,
                                                 const std::string& name) = 0;
  // Removes the text under `name` and returns it, if it is there. Does not wait for it to come.
  virtual std::optional<std::string> take(const std::string& name) = 0;
  // All throw the failure of the run when a rank fails meanwhile.

 protected:
  Mailbox() = default;
};

namespace rendezvous {

// A name has 1 to kLongestMailName printable characters of ASCII.
void check_mail_name(std::string_view name);
void check_mail(std::string_view name, std::string_view text);

}  // namespace rendezvous

}  // namespace phalanx
