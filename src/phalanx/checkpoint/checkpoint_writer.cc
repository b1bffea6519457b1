#include "phalanx/checkpoint/checkpoint_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>  // renameat2
#include <cstring>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/safetensors.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

void require(const std::error_code& error, const fs::path& path, std::string_view what) {
  if (error) throw OutputError("{}: cannot {}: {}", path.string(), what, error.message());
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  require(error, path, "remove");
}

// The directory of a checkpoint that is not complete yet; goes away unless it is released.
class Staging {
 public:
  explicit Staging(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    fs::create_directory(path_, error);
    require(error, path_, "create");
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() {
    std::error_code ignored;
    if (!released_) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  void release() { released_ = true; }

 private:
  fs::path path_;
  bool released_ = false;
};

std::int64_t bytes_of(const TensorSource::Info& info) {
  return info.global_shape.count() * size_of(info.dtype);
}

class Saver {
 public:
  Saver(const SaveOptions& options, Manifest manifest, TensorSource& source)
      : options_(options),
        save_(options.directory),
        manifest_(std::move(manifest)),
        source_(source),
        target_(save_ / iteration_directory_name(manifest_.iteration)) {
    PHALANX_CHECK(manifest_.iteration >= 0 && options.keep_last >= 0,
                  "iteration {}, {} checkpoints to keep", manifest_.iteration, options.keep_last);
    std::set<std::string_view> names;
    for (int i = 0; i < source.size(); ++i) {
      const std::string& name = source.info(i).name;
      PHALANX_CHECK(names.insert(name).second, "{} comes twice", name);
      const bool of_model = !name.starts_with(kOptimizerPrefix);
      PHALANX_CHECK(!of_model || model_tensors_ == i, "{} comes after optimizer tensors", name);
      if (of_model) ++model_tensors_;
    }
  }

  fs::path run() {
    make_save_directory();
    remove_leftovers();
    require_space();
    step("create staging");
    Staging staging(save_ / staging_directory_name(manifest_.iteration));
    write_files(staging.path());
    step("rename");
    put_in_place(staging.path());
    staging.release();
    step("sync directory");
    sync_directory(save_);
    step("tracker");
    write_file_durably(save_ / kTrackerName, std::to_string(manifest_.iteration));
    step("prune");
    prune();
    return target_;
  }

 private:
  void step(std::string_view name) const {
    if (options_.before_step) options_.before_step(name);
  }

  void make_save_directory() const {
    std::error_code error;
    // Every directory that is made must be on disk before what lies in it counts as saved.
    std::vector<fs::path> missing;
    for (fs::path path = fs::absolute(save_); !fs::exists(path, error) && path.has_relative_path();
         path = path.parent_path()) {
      missing.push_back(path);
    }
    std::reverse(missing.begin(), missing.end());
    for (const auto& path : missing) {
      fs::create_directory(path, error);
      require(error, path, "create");
      sync_directory(path.parent_path());
    }
    if (!fs::is_directory(save_, error)) {
      throw OutputError("{}: is not a directory (--save)", save_.string());
    }
    if (fs::exists(target_, error) && !fs::exists(target_ / kManifestName, error)) {
      throw OutputError(
          "{}: is there and not a checkpoint of Phalanx: move it away, or --save elsewhere",
          target_.string());
    }
  }

  void remove_leftovers() const {
    std::error_code error;
    std::vector<fs::path> leftovers;
    for (fs::directory_iterator entry(save_, error), end; !error && entry != end;
         entry.increment(error)) {
      if (is_staging_directory_name(entry->path().filename().string())) {
        leftovers.push_back(entry->path());
      }
    }
    require(error, save_, "list");
    for (const auto& path : leftovers) remove_tree(path);
  }

  void require_space() const {
    constexpr std::int64_t kHeaders = std::int64_t{1} << 20;
    std::int64_t needed = kHeaders;
    for (int i = 0; i < source_.size(); ++i) needed += bytes_of(source_.info(i));
    std::error_code error;
    const auto space = fs::space(save_, error);
    if (error || static_cast<std::uintmax_t>(needed) <= space.available) return;
    throw OutputError("{}: no space for the checkpoint of iteration {}: {} needed, {} free",
                      save_.string(), manifest_.iteration, format_bytes(needed),
                      format_bytes(static_cast<std::int64_t>(space.available)));
  }

  void write_files(const fs::path& staging) {
    manifest_.phalanx_version = PHALANX_VERSION;
    manifest_.files.clear();
    manifest_.tensors.clear();
    step("model");
    write_tensors(staging, kModelFileName, 0, model_tensors_);
    step("optimizer");
    if (model_tensors_ < source_.size()) {
      write_tensors(staging, kOptimizerFileName, model_tensors_, source_.size());
    }
    step("manifest");
    const std::string text = manifest_to_json(manifest_);
    // What could not be read again must not count as saved.
    parse_manifest(text, (staging / kManifestName).string());
    write_file_durably(staging / kManifestName, text);
  }

  // The source's tensors [begin, end).
  void write_tensors(const fs::path& staging, std::string_view file_name, int begin, int end) {
    std::vector<SafetensorsWriter::Item> items;
    for (int i = begin; i < end; ++i) {
      const auto& info = source_.info(i);
      items.push_back({info.name, info.dtype, info.global_shape});
    }
    SafetensorsWriter writer(staging / file_name, items, {{"format", "phalanx"}});
    for (int i = begin; i < end; ++i) {
      const auto& info = source_.info(i);
      Xxh3 hash;
      std::int64_t written = 0;
      source_.visit(i, [&](std::span<const std::byte> bytes) {
        hash.update(bytes);
        writer.write(bytes);
        written += std::ssize(bytes);
      });
      PHALANX_CHECK(written == bytes_of(info), "{}: {} bytes came, its size is {}", info.name,
                    written, bytes_of(info));
      manifest_.tensors.push_back({.name = info.name,
                                   .dtype = info.dtype,
                                   .shape = info.global_shape,
                                   .file = std::string(file_name),
                                   .xxh3 = hash.digest()});
    }
    const FileDigest digest = writer.commit();
    manifest_.files.push_back(
        {.name = std::string(file_name), .bytes = digest.bytes, .xxh3 = digest.xxh3});
  }

  // A checkpoint of the same iteration (a run that went back) changes places with the new one in
  // one step; the old one is then the leftover that prune() removes.
  void put_in_place(const fs::path& staging) const {
    std::error_code error;
    if (!fs::exists(target_, error)) {
      fs::rename(staging, target_, error);
      require(error, target_, "rename into place");
      return;
    }
    if (::renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
      return;
    }
    if (errno != EINVAL && errno != ENOSYS) {
      throw OutputError("{}: cannot replace: {}", target_.string(), std::strerror(errno));
    }
    // A file system without exchange: for a moment only older checkpoints are there.
    remove_tree(target_);
    fs::rename(staging, target_, error);
    require(error, target_, "rename into place");
  }

  // The new checkpoint is durable: what fails from here on is no reason to stop.
  void prune() const {
    try {
      remove_leftovers();
      if (options_.keep_last == 0) return;
      std::vector<std::int64_t> saved = saved_iterations(save_);
      // Later iterations belong to a run that went further before it was taken back; they are not
      // ours to judge.
      std::erase_if(saved, [&](std::int64_t iteration) { return iteration > manifest_.iteration; });
      for (std::ptrdiff_t i = 0; i < std::ssize(saved) - options_.keep_last; ++i) {
        const std::int64_t iteration = saved[static_cast<std::size_t>(i)];
        // Half removed, it must not look like a checkpoint.
        const fs::path doomed = save_ / staging_directory_name(iteration);
        fs::rename(save_ / iteration_directory_name(iteration), doomed);
        remove_tree(doomed);
      }
    } catch (const std::exception& error) {
      log_warning("an old checkpoint stays: {}", error.what());
    }
  }

  const SaveOptions& options_;
  const fs::path& save_;
  Manifest manifest_;
  TensorSource& source_;
  int model_tensors_ = 0;  // the source's first; the optimizer's follow
  fs::path target_;
};

}  // namespace

fs::path save_checkpoint(const SaveOptions& options, Manifest manifest, TensorSource& source) {
  return Saver(options, std::move(manifest), source).run();
}

fs::path save_checkpoint(const SaveOptions& options, Manifest manifest,
                         std::span<const GlobalTensor> tensors) {
  LocalTensorSource source(tensors);
  return save_checkpoint(options, std::move(manifest), source);
}

}  // namespace phalanx
