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
#include "phalanx/base/hash.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/housekeeping.h"
#include "phalanx/checkpoint/safetensors.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

void require(const std::error_code& error, const fs::path& path, std::string_view what) {
  if (error) throw OutputError("{}: cannot {}: {}", path.string(), what, error.message());
}

// The directory of a checkpoint that is not complete yet; goes away unless it is released.
class Staging {
 public:
  Staging(const fs::path& save, std::int64_t iteration) {
    std::error_code error;
    // An existing directory belongs to another process.
    do {
      path_ = save / staging_directory_name(iteration);
    } while (!fs::create_directory(path_, error) && !error);
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

// Whole tensors: those of the model in one file, those of the optimizer in another.
class WholeContent final : public CheckpointContent {
 public:
  explicit WholeContent(TensorSource& source) : source_(source) {
    std::set<std::string_view> names;
    for (int i = 0; i < source.size(); ++i) {
      const std::string& name = source.info(i).name;
      PHALANX_CHECK(names.insert(name).second, "{} comes twice", name);
      const bool of_model = !name.starts_with(kOptimizerPrefix);
      PHALANX_CHECK(!of_model || model_tensors_ == i, "{} comes after optimizer tensors", name);
      if (of_model) ++model_tensors_;
    }
  }

  std::int64_t bytes() const override {
    std::int64_t bytes = 0;
    for (int i = 0; i < source_.size(); ++i) bytes += bytes_of(source_.info(i));
    return bytes;
  }

  void write(const fs::path& directory, Manifest& manifest,
             const std::function<void(std::string_view step)>& step) override {
    step("model");
    write_tensors(directory, kModelFileName, 0, model_tensors_, manifest);
    step("optimizer");
    if (model_tensors_ < source_.size()) {
      write_tensors(directory, kOptimizerFileName, model_tensors_, source_.size(), manifest);
    }
  }

 private:
  // The source's tensors [begin, end).
  void write_tensors(const fs::path& directory, std::string_view file_name, int begin, int end,
                     Manifest& manifest) {
    std::vector<SafetensorsWriter::Item> items;
    for (int i = begin; i < end; ++i) {
      const auto& info = source_.info(i);
      items.push_back({info.name, info.dtype, info.global_shape});
    }
    SafetensorsWriter writer(directory / file_name, items, {{"format", "phalanx"}});
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
      manifest.tensors.push_back({.name = info.name,
                                  .dtype = info.dtype,
                                  .shape = info.global_shape,
                                  .file = std::string(file_name),
                                  .xxh3 = hash.digest()});
    }
    const FileDigest digest = writer.commit();
    manifest.files.push_back(
        {.name = std::string(file_name), .bytes = digest.bytes, .xxh3 = digest.xxh3});
  }

  TensorSource& source_;
  int model_tensors_ = 0;  // the source's first; the optimizer's follow
};

class Saver {
 public:
  Saver(const SaveOptions& options, Manifest manifest, CheckpointContent& content)
      : options_(options),
        save_(options.directory),
        manifest_(std::move(manifest)),
        content_(content),
        holder_{.run_id = manifest_.run_id, .holds = options.holds_directory},
        target_(save_ / iteration_directory_name(manifest_.iteration)) {
    PHALANX_CHECK(manifest_.iteration >= 0 && options.retention.keep_last >= 0,
                  "iteration {}, {} checkpoints to keep", manifest_.iteration,
                  options.retention.keep_last);
    check_copies();
  }

  fs::path run() {
    make_save_directory();
    // What was verified since the last save makes room now.
    remove_old();
    require_space();
    step("create staging");
    Staging staging(save_, manifest_.iteration);
    write_files(staging.path());
    step("rename");
    put_in_place(staging.path());
    staging.release();
    step("sync directory");
    sync_directory(save_);
    step("tracker");
    hint_in_tracker();
    step(kPruneStep);
    remove_old();
    return target_;
  }

 private:
  void step(std::string_view name) const {
    if (options_.before_step) options_.before_step(name);
  }

  void remove_old() const {
    tidy_up(save_, holder_);
    prune(save_, manifest_.start, manifest_.iteration, options_.retention, holder_);
  }

  // A copy that the manifest names must be there; else the caller is wrong.
  void check_copies() const {
    std::set<std::string_view> names;
    for (const auto& copy : options_.copies) {
      PHALANX_CHECK(is_copy_name(copy.name) && names.insert(copy.name).second,
                    "a copy cannot be named {}, or two are", copy.name);
    }
    for (const auto& input : manifest_.input_files) {
      PHALANX_CHECK(input.copy.empty() || names.contains(input.copy), "{}: no copy {}", input.flag,
                    input.copy);
    }
  }

  void make_save_directory() const {
    create_directories_durably(save_);
    std::error_code error;
    if (fs::exists(fs::symlink_status(target_, error)) &&
        !fs::exists(target_ / kManifestName, error)) {
      throw OutputError(
          "{}: is there and not a checkpoint of Phalanx: move it away, or --save elsewhere",
          target_.string());
    }
    expect_own_target();
  }

  // What stands under the name is replaced; that of another run is not ours to replace.
  void expect_own_target() const {
    std::string there;
    try {
      there = read_manifest_of(target_).run_id;
    } catch (const Error&) {
      return;  // it is not there, or damaged
    }
    if (holder_.owns(there)) return;
    throw OutputError(
        "{}: is the checkpoint of another run ({}, this one is {}): move it away, or --save "
        "elsewhere",
        target_.string(), there, manifest_.run_id);
  }

  void require_space() const {
    constexpr std::int64_t kHeaders = std::int64_t{1} << 20;
    std::int64_t needed = kHeaders + content_.bytes();
    for (const auto& copy : options_.copies) needed += std::ssize(copy.bytes);
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
    manifest_.parts.clear();
    manifest_.epoch.clear();
    content_.write(staging, manifest_, [this](std::string_view name) { step(name); });
    step("copies");
    for (const auto& copy : options_.copies) {
      write_file_durably(staging / copy.name, copy.bytes);
      manifest_.files.push_back(
          {.name = copy.name, .bytes = std::ssize(copy.bytes), .xxh3 = xxh3(copy.bytes)});
    }
    step("manifest");
    const std::string text = manifest_to_json(manifest_);
    // Data that could not be read again must not be saved.
    parse_manifest(text, (staging / kManifestName).string());
    write_file_durably(staging / kManifestName, text);
  }

  // A checkpoint of the same iteration (a run that went back) changes places with the new one in
  // one step; the old one is then the leftover that tidy_up() removes.
  void put_in_place(const fs::path& staging) const {
    std::error_code error;
    if (!fs::exists(target_, error)) {
      fs::rename(staging, target_, error);
      require(error, target_, "rename into place");
    } else if (!exchange(staging)) {
      replace(staging);
    }
  }

  // False if the file system cannot do that.
  bool exchange(const fs::path& staging) const {
    if (!options_.may_exchange) return false;
    if (::renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
      return true;
    }
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
    throw OutputError("{}: cannot replace: {}", target_.string(), std::strerror(errno));
  }

  // Replaces the old checkpoint in two steps. Between them it is found under its other name.
  void replace(const fs::path& staging) const {
    const fs::path aside = save_ / aside_directory_name(manifest_.iteration);
    std::error_code error;
    fs::rename(target_, aside, error);
    require(error, target_, "rename");
    sync_directory(save_);
    step("replace");
    fs::rename(staging, target_, error);
    if (!error) return;
    std::error_code ignored;
    fs::rename(aside, target_, ignored);
    require(error, target_, "rename into place");
  }

  // The new checkpoint is durable: what fails from here on is only a warning.
  void hint_in_tracker() const {
    try {
      write_tracker(save_, manifest_.iteration);
    } catch (const Error& error) {
      log_warning("{}; the checkpoint itself is saved", error.what());
    }
  }

  const SaveOptions& options_;
  const fs::path& save_;
  Manifest manifest_;
  CheckpointContent& content_;
  DirectoryHolder holder_;
  fs::path target_;
};

}  // namespace

fs::path save_checkpoint(const SaveOptions& options, Manifest manifest,
                         CheckpointContent& content) {
  return Saver(options, std::move(manifest), content).run();
}

fs::path save_checkpoint(const SaveOptions& options, Manifest manifest, TensorSource& source) {
  WholeContent content(source);
  return save_checkpoint(options, std::move(manifest), content);
}

fs::path save_checkpoint(const SaveOptions& options, Manifest manifest,
                         std::span<const GlobalTensor> tensors) {
  LocalTensorSource source(tensors);
  return save_checkpoint(options, std::move(manifest), source);
}

}  // namespace phalanx
