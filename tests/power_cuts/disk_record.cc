#include "disk_record.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

namespace phalanx::power_cuts {
namespace {

using Kind = Event::Kind;

// What a disk writes at once.
constexpr std::int64_t kSector = 512;

bool is_of_names(Kind kind) {
  return kind == Kind::kMake || kind == Kind::kUnlink || kind == Kind::kRename ||
         kind == Kind::kExchange;
}

class Cut {
 public:
  Cut(const DiskRecord& record, std::size_t end, std::mt19937& random)
      : record_(record), end_(end), random_(random), last_sync_(record.is_directory.size(), 0) {
    for (std::size_t i = 0; i < end_; ++i) {
      if (event(i).kind == Kind::kSync) last_sync_[node(i)] = i;
    }
    // Some disks keep the order of what they are given, some turn it round; others have all names
    // and no bytes.
    order_ = static_cast<Order>(random_() % 4);
    constexpr std::size_t kLast = 20;
    turn_ = end_ - random_() % (std::min(kLast, end_) + 1);
    names_ = share();
    bytes_ = share();
    has_garbage_ = random_() % 2 == 0;
  }

  DiskImage image() {
    Directories directories;
    std::map<int, std::vector<std::size_t>> changes;  // of files
    for (std::size_t i = 0; i < end_; ++i) {
      const Kind kind = event(i).kind;
      if (is_of_names(kind)) {
        // Of a rename between two directories both must be synced.
        const bool is_certain = is_synced(event(i).directory, i) &&
                                (event(i).to_directory < 0 || is_synced(event(i).to_directory, i));
        if (is_certain || is_kept(i, names_)) apply_names(event(i), directories);
      } else if (kind == Kind::kWrite || kind == Kind::kResize) {
        changes[event(i).node].push_back(i);
      }
    }
    DiskImage image;
    collect(kRoot, "", directories, changes, image);
    return image;
  }

 private:
  // In which order it reached the disk, of what was not synced; 3: none.
  enum class Order : std::uint8_t { kNone, kKept, kReversed };

  const Event& event(std::size_t i) const { return record_.events[i]; }
  std::size_t node(std::size_t i) const { return static_cast<std::size_t>(event(i).node); }
  bool is_synced(int of, std::size_t i) const {
    return last_sync_[static_cast<std::size_t>(of)] > i;
  }

  double share() {
    constexpr std::array<double, 7> kShares = {0, 0, 0.1, 0.5, 0.9, 1, 1};
    return kShares[random_() % kShares.size()];
  }
  bool is_drawn(double share) { return static_cast<double>(random_() % 1000) < 1000 * share; }
  bool is_kept(std::size_t i, double share) {
    if (order_ == Order::kKept) return i < turn_;
    if (order_ == Order::kReversed) return i >= turn_;
    return is_drawn(share);
  }

  void collect(int directory, const std::string& path, Directories& directories,
               std::map<int, std::vector<std::size_t>>& changes, DiskImage& image) {
    for (const auto& [name, node] : directories[directory]) {
      const std::string below = path + name;
      if (record_.is_directory[static_cast<std::size_t>(node)]) {
        image[below + "/"] = "";
        collect(node, below + "/", directories, changes, image);
      } else {
        image[below] = content(node, changes[node]);
      }
    }
  }

  std::string content(int file, const std::vector<std::size_t>& changes) {
    std::string bytes;
    const auto is_certain = [&](std::size_t i) { return is_synced(file, i); };
    const auto grow = [&](std::int64_t size) {
      if (std::ssize(bytes) < size) bytes.resize(static_cast<std::size_t>(size), '\0');
    };
    std::vector<std::size_t> pending;
    for (const std::size_t i : changes) {
      if (!is_certain(i)) {
        pending.push_back(i);
      } else if (event(i).kind == Kind::kResize) {
        bytes.resize(static_cast<std::size_t>(event(i).size), '\0');
      } else {
        grow(event(i).offset + std::ssize(event(i).bytes));
        std::ranges::copy(event(i).bytes, bytes.begin() + event(i).offset);
      }
    }
    if (pending.empty()) return bytes;
    // One of the lengths that the file had since it was synced.
    const std::size_t certain = bytes.size();
    std::vector<std::int64_t> lengths = {std::ssize(bytes)};
    for (const std::size_t i : pending) {
      lengths.push_back(
          event(i).kind == Kind::kResize
              ? event(i).size
              : std::max(lengths.back(), event(i).offset + std::ssize(event(i).bytes)));
    }
    std::size_t last = random_() % lengths.size();
    if (is_drawn(0.5)) last = is_drawn(bytes_) ? lengths.size() - 1 : 0;
    const std::int64_t length = lengths[last];
    bytes.resize(static_cast<std::size_t>(length), '\0');
    if (has_garbage_) {
      for (std::size_t i = certain; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + 1);
    }
    for (const std::size_t i : pending) {
      if (event(i).kind == Kind::kWrite) put_sectors(event(i), i, bytes);
    }
    return bytes;
  }

  void put_sectors(const Event& write, std::size_t i, std::string& bytes) {
    const std::int64_t end =
        std::min(write.offset + std::ssize(write.bytes), static_cast<std::int64_t>(bytes.size()));
    for (std::int64_t at = write.offset; at < end;) {
      const std::int64_t next = std::min(end, (at / kSector + 1) * kSector);
      if (is_kept(i, bytes_)) {
        std::copy(write.bytes.begin() + (at - write.offset),
                  write.bytes.begin() + (next - write.offset), bytes.begin() + at);
      }
      at = next;
    }
  }

  const DiskRecord& record_;
  std::size_t end_;
  std::mt19937& random_;
  std::vector<std::size_t> last_sync_;  // by node
  Order order_ = Order::kNone;
  std::size_t turn_ = 0;          // of the order
  double names_ = 0, bytes_ = 0;  // the shares of them that reached the disk without a sync
  bool has_garbage_ = false;      // where a file grew and its bytes did not reach the disk
};

}  // namespace

void apply_names(const Event& event, Directories& directories) {
  switch (event.kind) {
    case Kind::kMake:
      directories[event.directory][event.name] = event.node;
      break;
    case Kind::kUnlink:
      directories[event.directory].erase(event.name);
      break;
    case Kind::kRename:
      directories[event.directory].erase(event.name);
      directories[event.to_directory][event.to_name] = event.node;
      break;
    case Kind::kExchange:
      directories[event.directory][event.name] = event.to_node;
      directories[event.to_directory][event.to_name] = event.node;
      break;
    default:
      break;
  }
}

Directories entries_after(const DiskRecord& record) {
  Directories directories;
  for (const Event& event : record.events) apply_names(event, directories);
  return directories;
}

DiskImage whole_image(const DiskRecord& record) {
  DiskRecord synced = record;
  for (int node = 0; node < static_cast<int>(record.is_directory.size()); ++node) {
    synced.events.push_back({.kind = Kind::kSync, .node = node});
  }
  std::mt19937 random;
  return cut(synced, synced.events.size(), random);
}

DiskRecord first_of(const DiskRecord& record, std::size_t end) {
  DiskRecord first = record;
  first.events.resize(end);
  return first;
}

std::int64_t DiskRecord::mark_before(std::size_t end) const {
  for (std::size_t i = end; i-- > 0;) {
    if (events[i].kind == Kind::kMark) return events[i].offset;
  }
  return -1;
}

DiskImage cut(const DiskRecord& record, std::size_t end, std::mt19937& random) {
  return Cut(record, end, random).image();
}

void put_image(const DiskImage& image, const std::filesystem::path& root) {
  // A directory comes before what is in it.
  for (const auto& [name, bytes] : image) {
    if (name.ends_with('/')) {
      std::filesystem::create_directory(root / name.substr(0, name.size() - 1));
    } else {
      std::ofstream(root / name, std::ios::binary) << bytes;
    }
  }
}

}  // namespace phalanx::power_cuts
