// Writes states to a disk and reads them back: with every engine, on a disk and on a file system in
// memory, past the page cache and through it.

#include "phalanx/offload/disk_storage.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <csignal>
#include <cstddef>
#include <cstring>
#include <random>

#include "phalanx/offload/storage_test_support.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Place {
  StorageEngine engine = StorageEngine::kAutomatic;
  bool in_memory = false;
  bool direct = true;
  friend void PrintTo(const Place& place, std::ostream* out) {
    *out << name_of(place.engine) << (place.in_memory ? " in memory" : " on disk")
         << (place.direct ? " direct" : " buffered");
  }
};

constexpr Place kPlaces[] = {
    {StorageEngine::kIoUring, false, true},  {StorageEngine::kIoUring, false, false},
    {StorageEngine::kIoUring, true, true},   {StorageEngine::kThreads, false, true},
    {StorageEngine::kThreads, false, false}, {StorageEngine::kThreads, true, true}};

class DiskStorageTest : public testing::Test {
 protected:
  DiskStorageTest() { set_log_level(LogLevel::kError); }
  TestDirectory base_;
};

class PlacesTest : public testing::TestWithParam<Place> {
 protected:
  PlacesTest() : base_(GetParam().in_memory ? memory_disk() : disk()) {
    set_log_level(LogLevel::kError);
  }
  TestDirectory base_;
};

TEST_P(PlacesTest, RecordsOfAnySizeComeBackToMemoryOfAnyAlignment) {
  Rig rig(base_.path(), small_options(GetParam().engine, GetParam().direct));
  std::mt19937 random(7);
  FileLayout layout(kBlock);
  struct Record {
    std::int64_t offset, bytes;
    std::uint64_t seed = 0;
  };
  std::vector<Record> records;
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)) + 1;
  };
  for (int i = 0; i < 40; ++i) {
    std::int64_t bytes = i % 4 == 0 ? up_to(8) * 4096 : up_to(5 * kBlock);
    if (i % 10 == 9) bytes = up_to(100);
    records.push_back({layout.add(bytes), bytes});
  }
  const auto file = rig.storage().create_file("optimizer", layout);
  // Half of the memory is for writing, with gaps between; sometimes it is aligned.
  const auto place = [&](std::int64_t half) {
    return half * (4 << 20) + (random() % 3 == 0 ? up_to(500) * 4096 : up_to(2 << 20));
  };
  for (std::uint64_t round = 1; round < 200; ++round) {
    Record& record = records[random() % records.size()];
    if (record.seed == 0 || random() % 2 == 0) {
      record.seed = round;
      const auto source = rig.at(place(0), record.bytes);
      fill(source, record.seed);
      file->write(record.offset, source).wait({});
    }
    const auto target = rig.at(place(1), record.bytes);
    fill(target, 0);
    file->read(record.offset, target).wait({});
    ASSERT_TRUE(is_filled(target, record.seed)) << record.bytes << " in round " << round;
  }
  // Nothing behind the last byte is touched.
  const Record& odd = *std::ranges::find_if(
      records, [](const Record& r) { return r.seed != 0 && r.bytes % 4096 != 0; });
  const auto target = rig.at(4 << 20, odd.bytes + 64);
  fill(target, 5);
  std::vector<std::byte> behind(target.end() - 64, target.end());
  file->read(odd.offset, target.first(static_cast<std::size_t>(odd.bytes))).wait({});
  EXPECT_TRUE(std::ranges::equal(behind, target.last(64)));
}

TEST_P(PlacesTest, WholeBlocksOfARecordAreReadAndWritten) {
  Rig rig(base_.path(), small_options(GetParam().engine, GetParam().direct));
  const std::int64_t bytes = 3 * kBlock + 100;
  const auto file = rig.storage().create_file("optimizer", layout_of({5000, bytes}));
  const auto source = rig.at(256, bytes);
  fill(source, 1);
  const std::int64_t offset = 8192;
  file->write(offset, source).wait({});
  const auto part = rig.at(4 << 20, kBlock + 100);
  file->read(offset + 2 * kBlock, part).wait({});
  EXPECT_TRUE(std::ranges::equal(part, source.last(part.size())));
  fill(part, 2);
  file->write(offset + 2 * kBlock, part).wait({});
  const auto whole = rig.at(1 << 20, bytes);
  file->read(offset, whole).wait({});
  EXPECT_TRUE(std::ranges::equal(whole.first(2 * kBlock), source.first(2 * kBlock)));
  EXPECT_TRUE(std::ranges::equal(whole.subspan(2 * kBlock), part));
}

// Without waits in between every read sees the write before it, and not the one after it.
TEST_P(PlacesTest, ReadsAndWritesOfARangeKeepTheirOrder) {
  Rig rig(base_.path(), small_options(GetParam().engine, GetParam().direct));
  constexpr std::int64_t kBytes = 2 * kBlock + 4096;
  constexpr int kTimes = 40;
  const auto file = rig.storage().create_file("optimizer", layout_of({kBytes}));
  std::vector<Work> works;
  std::vector<std::span<std::byte>> targets;
  for (int i = 0; i < kTimes; ++i) {
    const auto source = rig.at(2 * i * 45056, kBytes);
    targets.push_back(rig.at((2 * i + 1) * 45056, kBytes));
    fill(source, static_cast<std::uint64_t>(i));
    works.push_back(file->write(0, source));
    works.push_back(file->read(0, targets.back()));
  }
  for (const Work& work : works) work.wait_host(Work::Clock::now() + std::chrono::minutes(5));
  for (int i = 0; i < kTimes; ++i) {
    EXPECT_TRUE(is_filled(targets[static_cast<std::size_t>(i)], static_cast<std::uint64_t>(i)));
  }
  EXPECT_TRUE(works.back().done());
}

TEST_P(PlacesTest, ATruncatedFileIsAnError) {
  Rig rig(base_.path(), small_options(GetParam().engine, GetParam().direct));
  const auto file = rig.storage().create_file("optimizer", layout_of({3 * kBlock}));
  const auto memory = rig.at(0, 3 * kBlock);
  file->write(0, memory).wait({});
  const fs::path path = rig.folder().path() / "optimizer.state";
  fs::resize_file(path, kBlock + 5000);
  const Work work = file->read(0, memory);
  EXPECT_THAT(message_of<IoError>([&] { work.wait({}); }),
              AllOf(HasSubstr(path.string()), HasSubstr("the file became shorter")));
}

TEST_P(PlacesTest, AFlippedBitIsAnError) {
  Rig rig(base_.path(), small_options(GetParam().engine, GetParam().direct));
  const auto file = rig.storage().create_file("optimizer", layout_of({100, 2 * kBlock + 8}));
  const auto memory = rig.at(0, 2 * kBlock + 8);
  fill(memory, 3);
  file->write(4096, memory).wait({});
  file->settle();
  const fs::path path = rig.folder().path() / "optimizer.state";
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  std::uint8_t byte = 0;
  const std::int64_t place = 4096 + kBlock + 1234;
  ASSERT_EQ(::pread(descriptor, &byte, 1, place), 1);
  byte ^= 4;
  ASSERT_EQ(::pwrite(descriptor, &byte, 1, place), 1);
  ::close(descriptor);
  const Work work = file->read(4096, memory);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(message_of<ChangedFileError>([&] { work.wait({}); }),
                AllOf(HasSubstr(path.string()), HasSubstr(fmt::format(" {} ", 4096 + kBlock)),
                      HasSubstr("not what was written")));
  }
  EXPECT_THAT(message_of<ChangedFileError>([&] { file->write(4096, memory); }),
              HasSubstr("not what was written"));
}

INSTANTIATE_TEST_SUITE_P(All, PlacesTest, testing::ValuesIn(kPlaces));

TEST_F(DiskStorageTest, SaysWhatItTurnedOutToBe) {
  if (fs::is_directory(memory_disk())) {
    const TestDirectory memory(memory_disk());
    std::string text;
    const std::string log = log_of(LogLevel::kInfo, [&] {
      Rig rig(memory.path());
      rig.storage().create_file("a", layout_of({1}));
      rig.storage().create_file("b", layout_of({1}));
      text = rig.storage().description();
    });
    EXPECT_THAT(text, HasSubstr("through the page cache (the file system is in memory)"));
    EXPECT_THAT(log, HasSubstr(text));
    EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
  }
  Rig rig(base_.path(), small_options(StorageEngine::kThreads, false));
  EXPECT_EQ(rig.storage().description(),
            "through the page cache (as was asked), 2 threads that call pread and pwrite");
}

TEST_F(DiskStorageTest, RefusesWhatWasNeverWrittenAndWhatIsNoRecord) {
  Rig rig(base_.path());
  const auto file = rig.storage().create_file("optimizer", layout_of({2 * kBlock}));
  const auto memory = rig.at(0, 2 * kBlock);
  EXPECT_THAT(message_of<InternalError>([&] { file->read(0, memory); }),
              HasSubstr("read before they were written"));
  file->write(0, memory.first(kBlock)).wait({});
  file->read(0, memory.first(kBlock)).wait({});
  EXPECT_THROW(file->read(0, memory), InternalError);
  EXPECT_THROW(file->read(0, memory.first(100)), InternalError);
  EXPECT_THROW(file->write(4096, memory.first(kBlock)), InternalError);
  EXPECT_THROW(rig.storage().create_file("x", FileLayout()), InternalError);
}

TEST_F(DiskStorageTest, RegisteredMemoryMovesToo) {
  Rig rig(base_.path());
  const Tensor tensor = allocate_staging(rig.memory(), DType::kF32, {3 * kBlock / 4});
  EXPECT_EQ(tensor.offset % kStorageAlignment, 0);
  StorageOptions options = small_options();
  options.staging = {std::span(rig.memory().base(), static_cast<std::size_t>(8 << 20))};
  const auto storage = make_disk_storage(rig.folder(), options, rig.buffers());
  const auto file = storage->create_file("optimizer", layout_of({3 * kBlock}));
  const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  Arena workspace = Arena::planning("workspace");
  Context context{*backend, workspace};
  fill(std::as_writable_bytes(tensor.span<float>()), 9);
  file->write(context, 0, tensor).wait({});
  fill(std::as_writable_bytes(tensor.span<float>()), 8);
  file->read(context, 0, tensor).wait({});
  EXPECT_TRUE(is_filled(std::as_bytes(tensor.span<float>()), 9));
}

TEST_F(DiskStorageTest, ThePlanTakesTheSameMemoryAndRecordsTheSame) {
  const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  const auto run = [&](Storage& storage, Arena& memory) {
    Arena workspace = Arena::planning("workspace");
    Recorder recorder;
    Context context{*backend, workspace, {}, &recorder};
    const auto optimizer = storage.create_file("optimizer", layout_of({40000, 3 * kBlock}));
    const auto activations = storage.create_file("activations", layout_of({100}));
    const Tensor large = memory.allocate(DType::kF32, {10000});
    const Tensor small = memory.allocate(DType::kU8, {100});
    optimizer->write(context, 0, large).wait({});
    activations->write(context, 0, small).wait({});
    const Work read = optimizer->read(context, 0, large);
    activations->read(context, 0, small).wait({});
    read.wait({});
    optimizer->read(context, 0, large).wait({});
    std::vector<std::uint64_t> awaited;
    for_each_event<Awaited>(recorder.events(),
                            [&](const Awaited& wait) { awaited.push_back(wait.work); });
    EXPECT_EQ(awaited, (std::vector<std::uint64_t>{1, 2, 4, 3, 5}));
    TransferTotals totals;
    totals.add(recorder.transfers());
    return totals;
  };
  Rig rig(base_.path());
  const TransferTotals moved = run(rig.storage(), rig.memory());
  Arena buffers = Arena::planning("storage");
  Arena memory = Arena::planning("states");
  const auto meta = make_meta_storage(small_options(), buffers);
  EXPECT_EQ(run(*meta, memory), moved);
  EXPECT_EQ(buffers.high_water(), rig.buffers().high_water());
  EXPECT_EQ(buffers.high_water(), storage_bytes(small_options()) +
                                      checksum_bytes(layout_of({40000, 3 * kBlock})) +
                                      checksum_bytes(layout_of({100})));
  const TransferTotals::Key reads{"optimizer", "read"};
  EXPECT_EQ(moved.by_key().at(reads), (TransferTotals::Total{.count = 2, .bytes = 80000}));
  const auto file = meta->create_file("x", layout_of({100}));
  EXPECT_THROW(file->read(0, rig.at(0, 100)), InternalError);
}

// --- Systems that have less

// io_uring's calls end with `error`, as containers and old kernels have it.
void refuse_io_uring(int error) {
  std::array<sock_filter, 4> filter = {
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

TEST_F(DiskStorageTest, WithoutIoUringThreadsDoIt) {
  for (const int error : {ENOSYS, EPERM}) {
    const int status = status_of_child([&] {
      refuse_io_uring(error);
      {
        Rig rig(base_.path());
        EXPECT_THAT(rig.storage().description(),
                    AllOf(HasSubstr("2 threads"), HasSubstr("io_uring is not there"),
                          HasSubstr(std::strerror(error))));
        const auto file = rig.storage().create_file("optimizer", layout_of({100}));
        fill(rig.at(0, 100), 4);
        file->write(0, rig.at(0, 100)).wait({});
        file->read(0, rig.at(500, 100)).wait({});
        EXPECT_TRUE(is_filled(rig.at(500, 100), 4));
      }
      EXPECT_THROW(Rig(base_.path(), small_options(StorageEngine::kIoUring)), SystemError);
    });
    EXPECT_EQ(status, 0) << error;
  }
}

TEST_F(DiskStorageTest, WithoutLockedMemoryNothingIsRegistered) {
  fs::permissions(base_.path(), fs::perms::all);
  const int status = status_of_child([&] {
    // Enough for the rings, where kernels count them, but not for the buffers.
    const rlimit little{4 * kBlock - 4096, 4 * kBlock - 4096};
    ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &little), 0);
    if (::getuid() == 0) {
      ASSERT_EQ(::setuid(65534), 0);
    }
    Rig rig(base_.path(), small_options(StorageEngine::kIoUring));
    EXPECT_THAT(rig.storage().description(), Not(HasSubstr("registered")));
    const auto file = rig.storage().create_file("optimizer", layout_of({kBlock}));
    fill(rig.at(1, kBlock), 4);
    file->write(0, rig.at(1, kBlock)).wait({});
    file->read(0, rig.at(1 << 20, kBlock)).wait({});
    EXPECT_TRUE(is_filled(rig.at(1 << 20, kBlock), 4));
  });
  EXPECT_EQ(status, 0);
}

TEST_F(DiskStorageTest, AFullDiskIsOneError) {
  const int status = status_of_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", base_.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      ::_exit(77);
    }
    Rig rig(base_.path());
    const auto first = rig.storage().create_file("first", layout_of({700000}));
    EXPECT_THAT(
        message_of<OutputError>([&] { rig.storage().create_file("b", layout_of({700000})); }),
        AllOf(HasSubstr("--offload-optimizer-to"), HasSubstr("are needed and"),
              HasSubstr("700416 and ")));
    EXPECT_FALSE(fs::exists(rig.folder().path() / "b.state"));
    // The reserved space is there.
    first->write(0, rig.at(0, 700000)).wait({});
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  EXPECT_EQ(status, 0);
}

TEST_F(DiskStorageTest, ALimitOfFileSizesIsOneError) {
  const int status = status_of_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    Rig rig(base_.path());
    EXPECT_THAT(
        message_of<OutputError>([&] { rig.storage().create_file("b", layout_of({2 << 20})); }),
        AllOf(HasSubstr("b.state: cannot reserve 2.00 MiB (2097152 bytes"),
              HasSubstr("File too large")));
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace phalanx
