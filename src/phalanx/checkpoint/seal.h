#pragma once
// A JSON text that ends with a digest of all that comes before: its last field, under a key of its
// kind of file.

#include <string>
#include <string_view>

namespace phalanx {

// The end of a text: the digest of `body`, which ends with a comma, as the field `key`.
std::string seal_of(std::string_view body, std::string_view key);
// The text before the seal; all of it, if there is none.
std::string_view sealed_body(std::string_view text, std::string_view key);
// DataError unless the text ends with its seal. `path` opens the message.
void check_seal(std::string_view text, std::string_view key, const std::string& path);

}  // namespace phalanx
