#include "phalanx/saving/save_mail.h"

#include <fmt/core.h>

#include "phalanx/base/hash.h"

namespace phalanx {

// Several directories may be saved to under one epoch.
SaveMail::SaveMail(Mailbox& box, const std::filesystem::path& directory, const std::string& epoch)
    : box_(&box),
      prefix_(fmt::format("save/{}/{}/", digest_to_text(xxh3(directory.string())), epoch)) {}

}  // namespace phalanx
