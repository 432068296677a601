// SPDX-License-Identifier: Apache-2.0
// A Disk is one folder and the files in it, as far as a log and snapshots need them: what survives a crash is
// said here, and every implementation may lose the rest.
//
//   (D1) Bytes written to a file survive a crash of the host once a sync() of that file that began later has
//        returned without error. Before, any subset of the sectors (512 bytes) that were written may survive.
//   (D2) After a sync() has failed, bytes written before it may be lost although a later one succeeds. So a
//        file whose sync failed is never trusted again.
//   (D3) That a file exists, and under which name, survives once sync_folder() has returned; before, any
//        prefix of the creations, renames and removals may survive.
//   (D4) A write within allocated room does not fail because space is short.
//   (D5) What one process wrote is seen by every later one on the same host, without any sync.
//
// Names are of one folder: letters, digits, '-', '_' and '.', no slash. Errors are sentences with the path
// and what to do; their codes: kNotFound, kExists, kNoSpace (disk or quota full), kAccessDenied (permission,
// read-only file system), kInUse (locked by another process), kSystem (everything else).
//
// Threads: a File is used by one thread at a time; a Disk by any. Calls block. Control path and the log's own
// thread; nothing here is called by a shard's thread while it serves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"

namespace refract::storage {

inline constexpr uint64_t kSectorBytes = 512;

class File {
 public:
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  virtual ~File() = default;

  // The whole span, or an error; after an error any part of it may have been written.
  [[nodiscard]] virtual Reported<> write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  // How many bytes were read: fewer than asked for only where the file ends.
  [[nodiscard]] virtual Reported<uint64_t> read(uint64_t offset, std::span<std::byte> bytes) = 0;
  // The file's bytes and its length (D1, D2).
  [[nodiscard]] virtual Reported<> sync() = 0;
  // Room for the first `bytes` bytes; the file is that long at least from now on, and zero where nothing was
  // written.
  [[nodiscard]] virtual Reported<> allocate(uint64_t bytes) = 0;
  [[nodiscard]] virtual Reported<> truncate(uint64_t bytes) = 0;
  [[nodiscard]] virtual Reported<uint64_t> bytes() = 0;
  // A hint: begins to bring what was written there to the medium, so that the next sync has less to do.
  virtual void start_writeback(uint64_t offset, uint64_t bytes) = 0;
  // Waits until what start_writeback() was told of there has been brought to the medium: a bound on what
  // others' syncs have to wait for, and no sync (D1). A failure may be told here, and then not by sync(): as
  // (D2).
  [[nodiscard]] virtual Reported<> finish_writeback(uint64_t /*offset*/, uint64_t /*bytes*/) { return {}; }
  // A hint: what was written there will not be read soon; the kernel need not keep it in memory.
  virtual void drop_cached(uint64_t offset, uint64_t bytes) = 0;
};

// Holds a lock while it lives.
class Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  virtual ~Lock() = default;
};

enum class OpenMode : uint8_t { kRead, kReadWrite, kCreate };  // kCreate: kExists where the file is there.

class Disk {
 public:
  Disk() = default;
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  virtual ~Disk() = default;

  [[nodiscard]] virtual Reported<std::unique_ptr<File>> open(std::string_view name, OpenMode mode) = 0;
  // Replaces `to` where it exists, in one step.
  [[nodiscard]] virtual Reported<> rename(std::string_view from, std::string_view to) = 0;
  [[nodiscard]] virtual Reported<> remove(std::string_view name) = 0;
  [[nodiscard]] virtual Reported<> sync_folder() = 0;
  // The names of all files, sorted.
  [[nodiscard]] virtual Reported<std::vector<std::string>> list() = 0;
  // Makes the file where it is missing. kInUse: another process, or another part of this one, holds it.
  [[nodiscard]] virtual Reported<std::unique_ptr<Lock>> lock(std::string_view name) = 0;
  // For sentences: "/var/lib/refract/log-000-...".
  [[nodiscard]] virtual std::string path_of(std::string_view name) const = 0;
};

}  // namespace refract::storage
