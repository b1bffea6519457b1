#pragma once
// Records what this process does to files: the program that links recorder.cc has its own open,
// write, fsync, rename and so on, which call the C library's and note what they did. So the code
// under test has no hook. io_uring is refused, for its writes pass through no function: files are
// written by threads.

#include <filesystem>

#include "disk_record.h"

namespace phalanx::power_cuts {

// Records what happens below `root` until stop_recording(). One at a time. The directory is empty,
// or as the events of `before` left it: the record goes on.
void start_recording(const std::filesystem::path& root, DiskRecord before = {});
// Notes that the program has come to `number`; any thread.
void mark(std::int64_t number);
bool is_recording();
std::size_t recorded_events();
DiskRecord stop_recording();

}  // namespace phalanx::power_cuts
