#include "core/storage/sqlite/fault_vfs.h"

#include <sqlite3.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace memoryd::sqlite {
namespace {

// SQLite calls back without a context, so the state is the process's.
std::atomic<std::int64_t> good_calls = INT64_MAX;
std::atomic<std::int64_t> bad_calls = 0;
std::atomic<std::int64_t> failed_calls = 0;
std::atomic<std::int64_t> good_syncs = 0;
std::atomic<bool> write_is_full = false;

sqlite3_vfs* real_vfs = nullptr;
sqlite3_vfs fault_vfs;

// The real file follows it in the same allocation.
struct FaultFile {
  sqlite3_file base;
};

sqlite3_file* Real(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<FaultFile*>(file) + 1);
}

// SQLITE_OK, or the code that this call fails with.
int Fault(FaultVfs::Call call) {
  if (good_calls.fetch_sub(1) > 0) return SQLITE_OK;
  if (bad_calls.fetch_sub(1) <= 0) return SQLITE_OK;
  ++failed_calls;
  switch (call) {
    case FaultVfs::Call::kWrite:
      return write_is_full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    case FaultVfs::Call::kSync:
      return SQLITE_IOERR_FSYNC;
    case FaultVfs::Call::kTruncate:
      return SQLITE_IOERR_TRUNCATE;
  }
  return SQLITE_IOERR;
}

int Write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  if (const int code = Fault(FaultVfs::Call::kWrite); code != SQLITE_OK) return code;
  return Real(file)->pMethods->xWrite(Real(file), data, size, offset);
}

int Sync(sqlite3_file* file, int flags) {
  if (const int code = Fault(FaultVfs::Call::kSync); code != SQLITE_OK) return code;
  ++good_syncs;
  return Real(file)->pMethods->xSync(Real(file), flags);
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (const int code = Fault(FaultVfs::Call::kTruncate); code != SQLITE_OK) return code;
  return Real(file)->pMethods->xTruncate(Real(file), size);
}

int Close(sqlite3_file* file) { return Real(file)->pMethods->xClose(Real(file)); }
int Read(sqlite3_file* file, void* data, int size, sqlite3_int64 offset) {
  return Real(file)->pMethods->xRead(Real(file), data, size, offset);
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return Real(file)->pMethods->xFileSize(Real(file), size);
}
int Lock(sqlite3_file* file, int level) { return Real(file)->pMethods->xLock(Real(file), level); }
int Unlock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xUnlock(Real(file), level);
}
int CheckReservedLock(sqlite3_file* file, int* held) {
  return Real(file)->pMethods->xCheckReservedLock(Real(file), held);
}
int FileControl(sqlite3_file* file, int operation, void* argument) {
  return Real(file)->pMethods->xFileControl(Real(file), operation, argument);
}
int SectorSize(sqlite3_file* file) { return Real(file)->pMethods->xSectorSize(Real(file)); }
int DeviceCharacteristics(sqlite3_file* file) {
  return Real(file)->pMethods->xDeviceCharacteristics(Real(file));
}
int ShmMap(sqlite3_file* file, int page, int size, int extend, void volatile** memory) {
  return Real(file)->pMethods->xShmMap(Real(file), page, size, extend, memory);
}
int ShmLock(sqlite3_file* file, int offset, int count, int flags) {
  return Real(file)->pMethods->xShmLock(Real(file), offset, count, flags);
}
void ShmBarrier(sqlite3_file* file) { Real(file)->pMethods->xShmBarrier(Real(file)); }
int ShmUnmap(sqlite3_file* file, int remove) {
  return Real(file)->pMethods->xShmUnmap(Real(file), remove);
}

// Version 2: shared memory, no memory-mapped pages, which would pass the faults by.
constexpr sqlite3_io_methods kMethods = {
    2,
    Close,
    Read,
    Write,
    Truncate,
    Sync,
    FileSize,
    Lock,
    Unlock,
    CheckReservedLock,
    FileControl,
    SectorSize,
    DeviceCharacteristics,
    ShmMap,
    ShmLock,
    ShmBarrier,
    ShmUnmap,
    nullptr,
    nullptr,
};

int Open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  std::memset(Real(file), 0, static_cast<std::size_t>(real_vfs->szOsFile));
  const int code = real_vfs->xOpen(real_vfs, name, Real(file), flags, out_flags);
  if (Real(file)->pMethods != nullptr) file->pMethods = &kMethods;
  return code;
}

}  // namespace

FaultVfs::FaultVfs() {
  real_vfs = sqlite3_vfs_find(nullptr);
  fault_vfs = *real_vfs;  // All but opening a file is the real one's.
  fault_vfs.zName = "fault";
  fault_vfs.szOsFile = static_cast<int>(sizeof(FaultFile)) + real_vfs->szOsFile;
  fault_vfs.xOpen = Open;
  Disarm();
  sqlite3_vfs_register(&fault_vfs, 1);
}

FaultVfs::~FaultVfs() {
  sqlite3_vfs_unregister(&fault_vfs);
  sqlite3_vfs_register(real_vfs, 1);
}

void FaultVfs::Arm(std::int64_t good, std::int64_t bad, bool full) {
  failed_calls = 0;
  write_is_full = full;
  bad_calls = bad;
  good_calls = good;
}

void FaultVfs::Disarm() {
  good_calls = INT64_MAX;
  bad_calls = 0;
}

std::int64_t FaultVfs::failures() const { return failed_calls; }
std::int64_t FaultVfs::syncs() const { return good_syncs; }

}  // namespace memoryd::sqlite
