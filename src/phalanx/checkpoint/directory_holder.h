#pragma once
// The run that removes and marks checkpoints of a save directory. A lock shows that the directory
// is the writer's as long as nobody moves it, and where the file system has locks; the run's id
// shows whose a checkpoint is.

#include <functional>
#include <string>

namespace phalanx {

struct DirectoryHolder {
  std::string run_id;  // "": of an import
  // Whether the directory at the path is the one that is held; asked before each file. Null: it is.
  std::function<bool()> holds = nullptr;

  bool holds_directory() const { return holds == nullptr || holds(); }
  // Whether the checkpoint of a run with this id is the holder's. Imports and checkpoints of
  // version 1 have no id: they belong to the run of their directory.
  bool owns(const std::string& id) const { return id.empty() || id == run_id; }
};

}  // namespace phalanx
