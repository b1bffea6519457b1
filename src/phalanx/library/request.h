#pragma once
// A request: the JSON object that a function of the interface takes.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

// A path, or another text of the caller's: UsageError that calls it `name` if it is null.
std::string given_text(const char* text, std::string_view name);

// Faults are UsageErrors that name the member. A member that is null counts as not given.
class Request {
 public:
  explicit Request(const char* text);
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request();

  bool has(std::string_view name) const;
  std::optional<std::string> text(std::string_view name);
  // A text for a path or a flag, which has no zero byte.
  std::optional<std::string> word(std::string_view name);
  bool is_set(std::string_view name);  // true or false; not given: false
  std::optional<std::vector<std::string>> texts(std::string_view name);
  std::optional<std::vector<std::string>> word_list(std::string_view name);
  // Lists of token ids.
  std::optional<std::vector<std::vector<std::int32_t>>> ids(std::string_view name);

  // The words of a call: "model", then "arguments", then "flags" as words --NAME=VALUE.
  std::vector<std::string> words();
  // To be called when all members were read that the function knows: no other may be there.
  void expect_no_other() const;

 private:
  struct Members;
  std::unique_ptr<Members> members_;
};

}  // namespace phalanx
