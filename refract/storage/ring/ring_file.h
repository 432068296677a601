// SPDX-License-Identifier: Apache-2.0
// The file of a ring (ring.h): where it lies, whose it is, and how it comes there.
//
// It lies in the data folder, as ring-000 for shard 0. All of its blocks are written before it has its name,
// so that no later store into its mapping needs room. Its pages outlive every process, also in a container
// and behind a logout; of another boot of the host they are worth nothing. Where the file system may refuse a
// store into a mapped page, or the folder has no room, a ring lies in memory, and goes with the last process
// that has it. The page "store" says which of the two is in use (RingUse); so a ring that is gone is missed.
//
//   (F1) A ring bears its name when its header stands, never before: it is made under another name.
//   (F2) A process that works on a ring holds a lock on it; forks inherit it. A ring that another process
//        holds is left alone, whatever its name.
//   (F3) What a ring holds counts if the page says that it is in use, in this boot, and has its number. Every
//        other file of its name is made over or replaced, whatever it is.
//
// Threads: one. Control path; blocks.
#pragma once

#include <cstdint>
#include <string>

#include "refract/base/boot_id.h"
#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"
#include "refract/storage/record.h"
#include "refract/storage/ring/ring.h"

namespace refract::storage {

inline constexpr uint64_t kRingHeaderBytes = 4096;

enum class RingPlace : uint64_t { kFolder = 0, kMemory = 1 };

struct RingIdentity {
  StoreId store = {};
  uint32_t shard = 0;
  BootId boot = {};
  uint64_t number = 0;  // 0: any, for callers that only look.
};

// "ring-000".
[[nodiscard]] std::string ring_name(uint32_t shard);

// The folder that rings lie in, as long as it is held: moving it or giving it another name changes nothing.
class RingFolder {
 public:
  [[nodiscard]] static Reported<RingFolder> open(const std::string& path);
  // Whether a store into a mapped file with all its blocks cannot fail here because room is short.
  [[nodiscard]] bool keeps_rings() const noexcept;
  [[nodiscard]] int descriptor() const noexcept { return folder_.get(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }  // For sentences.
  [[nodiscard]] std::string path_of(const std::string& name) const;
  // How a ring whose file has this number lies in this folder now.
  [[nodiscard]] RingHome home_of(uint64_t file_inode) const noexcept;
  [[nodiscard]] uint32_t owner() const noexcept { return owner_; }

 private:
  Descriptor folder_;
  std::string path_;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  uint32_t owner_ = 0;
};

// What a file system's kind (statfs's f_type) says of that.
[[nodiscard]] bool keeps_mapped_stores(uint64_t file_system) noexcept;

class RingFile {
 public:
  // An empty one that is not in use. Uses a ring of ours again that lies there, which needs no room; else
  // makes one, in place of any other file. kNoSpace, kInUse (another process holds it), kAccessDenied.
  [[nodiscard]] static Reported<RingFile> make(const RingFolder& folder, const RingIdentity& identity,
                                               uint64_t ring_bytes);
  // The two steps of making a new one: with another name, and then with its own.
  [[nodiscard]] static Reported<RingFile> prepare(const RingFolder& folder, const RingIdentity& identity,
                                                  uint64_t ring_bytes);
  [[nodiscard]] Reported<> take_name(const RingFolder& folder) const;
  [[nodiscard]] static Reported<RingFile> make_in_memory(const RingIdentity& identity, uint64_t ring_bytes);

  // The one that is in use. kNotFound: it is gone; kCorrupt: cut, emptied, or another file; kUnsupported;
  // kInUse; kAccessDenied: others may write to it.
  [[nodiscard]] static Reported<RingFile> take_up(const RingFolder& folder, const RingIdentity& identity);
  // Likewise for callers that only look: without a lock, and not writable.
  [[nodiscard]] static Reported<RingFile> look(const RingFolder& folder, const RingIdentity& identity);

  [[nodiscard]] int descriptor() const noexcept { return file_.get(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }  // For sentences.
  [[nodiscard]] const RingIdentity& identity() const noexcept { return identity_; }
  [[nodiscard]] uint64_t ring_bytes() const noexcept { return ring_bytes_; }
  // It outlives every process.
  [[nodiscard]] bool is_in_folder() const noexcept { return is_in_folder_; }
  [[nodiscard]] bool is_writable() const noexcept { return is_writable_; }
  // It was taken up in another place than it was made in: the folder is a copy.
  [[nodiscard]] bool is_copy() const noexcept { return is_copy_; }

  // Its name still leads to it.
  [[nodiscard]] bool has_name(const RingFolder& folder) const;
  // As long as it was made, and with its header: it was not cut and not written over.
  [[nodiscard]] bool is_whole() const;
  // It is to be known that what a ring of this name held is lost (Ring::is_lost). REQUIRES: not in use.
  [[nodiscard]] Reported<> say_lost() const;
  // What another ring of this size holds, which has no user meanwhile.
  [[nodiscard]] Reported<> copy_content(const RingFile& from) const;

 private:
  RingFile() = default;
  [[nodiscard]] static Reported<RingFile> open_named(const RingFolder& folder, const RingIdentity& identity,
                                                     int flags);
  [[nodiscard]] Reported<> check(const RingFolder& folder);
  [[nodiscard]] bool can_be_used_again(const RingFolder& folder, uint64_t ring_bytes) const;
  [[nodiscard]] Reported<> hold() const;
  [[nodiscard]] Reported<> write_header(const RingHome& home) const;
  [[nodiscard]] Reported<> write_blocks() const;

  Descriptor file_;
  std::string path_;
  RingIdentity identity_;
  uint64_t ring_bytes_ = 0;
  bool is_in_folder_ = true;
  bool is_writable_ = true;
  bool is_copy_ = false;
};

}  // namespace refract::storage
