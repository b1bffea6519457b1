#pragma once
// A directory of arrays that are slow to make and that follow from a few inputs: which sample comes
// when. The first run makes them and writes them; later runs, and the other processes of the same
// run, map the file.
//
// A file is one block of bytes behind a header that says what the block was made from, word for
// word, and holds the digests of both. It appears whole or not at all (DurableFile), and all of it
// is verified before it is used: one that is damaged, foreign or of another version is named in a
// warning and made anew. A digest finds damage, not malice: whoever reads a block checks what it
// says.
//
// One process builds while the others wait for it, by a lock on a file beside the block's (which
// names the builder and goes with it). Between hosts that relies on the file system carrying
// F_OFD_SETLK to its server (checkpoint/directory_lock.h lists them), and on rename() replacing a
// name at once. Without such locks several build the same bytes, each in a temporary file of its
// own, and the last rename stays. A builder that is killed loses its lock, and the next one builds;
// one that is killed between the rename and its end leaves a lock file, which does no harm.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "phalanx/data/build_lock.h"

namespace phalanx {

// What a block holds.
struct IndexRequest {
  std::string name;         // begins the name of its file: "gpt"
  std::string description;  // everything that decides its bytes; below 64 KiB
  // None: known only when it is built; the reader of a file checks the size.
  std::optional<std::int64_t> bytes = 0;
};

// A block in memory or in a mapped file.
struct IndexBlock {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // keeps the bytes
  std::string file;                   // "" in memory

  static IndexBlock in_memory(const std::shared_ptr<std::byte[]>& memory, std::int64_t bytes) {
    return {.bytes = {memory.get(), static_cast<std::size_t>(bytes)}, .owner = memory, .file = ""};
  }
};

class IndexCache {
 public:
  // Makes and fills memory: IndexRequest::bytes, where that says it.
  using Build = std::function<IndexBlock()>;

  // `flag` is what named the directory, for messages. Nothing is made or read yet.
  explicit IndexCache(std::filesystem::path directory, std::string flag = "--data-cache-path");

  // From its file, or from `build` and then put there; what `build` throws is passed on. Where the
  // directory cannot be written, a warning says so once and the block stays in memory. `poll` is
  // called every so often while another process builds, and between pieces that are written; what
  // it throws ends the call.
  IndexBlock get(const IndexRequest& request, const Build& build,
                 const std::function<void()>& poll = nullptr) const;

  // What is there already, and what is put there by somebody who has made it without asking; the
  // latter is quiet where it cannot be kept, but for the one warning.
  std::optional<IndexBlock> find(const IndexRequest& request) const;
  void put(const IndexRequest& request, std::span<const std::byte> block) const;

  std::filesystem::path path_of(const IndexRequest& request) const;

  // The block in the bytes of a file. DataError, naming `path` and the field, where they are not
  // what was requested, whole and undamaged.
  static std::span<const std::byte> parse(std::span<const std::byte> file,
                                          const IndexRequest& request, const std::string& path);

 private:
  IndexBlock build_and_keep(const IndexRequest& request, const Build& build,
                            const std::function<void()>& poll) const;
  // Nothing if another process has the lock, or if there can be no lock (then the block is not
  // kept).
  std::optional<BuildLock> take_lock(const std::filesystem::path& path) const;
  // Whether the directory is there and can be written, as far as is known.
  bool prepare() const;
  void give_up(const std::string& reason) const;

  std::filesystem::path directory_;
  std::string flag_;
  mutable std::atomic<bool> is_unusable_ = false;
};

}  // namespace phalanx
