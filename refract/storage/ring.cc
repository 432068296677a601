// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/ring.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/hash.h"
#include "refract/memory/descriptor.h"
#include "refract/storage/posix_disk.h"

namespace refract::storage {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr long kTmpfsMagic = 0x01021994;
constexpr const char* kTmpfsFolder = "/dev/shm";

[[nodiscard]] uint64_t checksum_of(const RingHeader& header) noexcept {
  return XXH3_64bits(&header, offsetof(RingHeader, failure));
}

[[nodiscard]] Descriptor open_new(const RingSpec& spec) noexcept {
  if (spec.path.empty()) return Descriptor(::memfd_create("refract-ring", MFD_CLOEXEC));
  // A new file instead of a cleared one: who still maps the old one keeps it, and sees nothing of ours.
  ::unlink(spec.path.c_str());
  return Descriptor(::open(spec.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
}

[[nodiscard]] std::string name_of(const RingSpec& spec) {
  return spec.path.empty() ? "the log's ring" : spec.path;
}

// Whether the header is a ring of ours; the bytes came from a file, and are anything.
[[nodiscard]] Reported<> check_header(const RingHeader& header, const RingSpec& spec, uint64_t file_bytes) {
  if (header.magic != kRingMagic) {
    return report(Code::kCorrupt, fmt::format("{} is no ring of a log", spec.path), "move it away");
  }
  if (header.version != kRingVersion) {
    return report(
        Code::kUnsupported,
        fmt::format("{} has version {} of the ring; this program knows {}", spec.path, header.version,
                    kRingVersion),
        "stop the node with the program that wrote it, which empties the ring, then start this one");
  }
  if (checksum_of(header) != header.checksum || header.ring_bytes % kPageBytes != 0 ||
      header.ring_bytes < kRingBytesMin || header.ring_bytes + kPageBytes != file_bytes) {
    return report(
        Code::kCorrupt, fmt::format("the header of {} is damaged", spec.path),
        "changes that were not in the log's files yet are lost: move it away to start without them");
  }
  if (header.boot != spec.boot) {
    return report(Code::kNotFound, fmt::format("{} is of an earlier boot of this host", spec.path));
  }
  if (header.store != spec.store || header.shard != spec.shard) {
    return report(Code::kInUse, fmt::format("{} belongs to another store or shard", spec.path),
                  "move it away, or give this node another place for its rings");
  }
  return {};
}

}  // namespace

Ring::Ring(Ring&& other) noexcept {
  *this = std::move(other);
}

Ring& Ring::operator=(Ring&& other) noexcept {
  std::swap(header_, other.header_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(key_of_log_, other.key_of_log_);
  std::swap(appended_, other.appended_);
  std::swap(log_end_, other.log_end_);
  std::swap(taken_, other.taken_);
  std::swap(mark_, other.mark_);
  return *this;
}

Ring::~Ring() {
  unmap();
}

void Ring::unmap() noexcept {
  if (header_ != nullptr) ::munmap(header_, kPageBytes + 2 * bytes_);
  header_ = nullptr;
}

Reported<Ring> Ring::map(int descriptor, const RingSpec& spec, uint64_t bytes) {
  void* const reserved =
      ::mmap(nullptr, kPageBytes + 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return report_errno(errno, "map", name_of(spec));
  Ring ring;
  ring.header_ = static_cast<RingHeader*>(reserved);
  ring.data_ = static_cast<std::byte*>(reserved) + kPageBytes;
  ring.bytes_ = bytes;
  ring.key_of_log_ = log_key(spec.store, spec.shard);
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  constexpr int kKind = MAP_SHARED | MAP_FIXED | MAP_POPULATE;
  if (::mmap(reserved, kPageBytes + bytes, kAccess, kKind, descriptor, 0) == MAP_FAILED ||
      ::mmap(ring.data_ + bytes, bytes, kAccess, kKind, descriptor, kPageBytes) == MAP_FAILED) {
    return report_errno(errno, "map", name_of(spec));
  }
  return ring;
}

Reported<Ring> Ring::create(const RingSpec& spec) {
  REFRACT_CHECK(spec.bytes % kPageBytes == 0 && spec.bytes >= kRingBytesMin);
  REFRACT_CHECK(spec.log_position % kRecordUnit == 0);
  const Descriptor descriptor = open_new(spec);
  if (!descriptor) return report_errno(errno, "make", name_of(spec));
  // All of it now: memory that is missing later would end the server by SIGBUS.
  const int error = ::posix_fallocate(descriptor.get(), 0, static_cast<off_t>(kPageBytes + spec.bytes));
  if (error != 0) {
    if (!spec.path.empty()) ::unlink(spec.path.c_str());
    return report_errno(error, fmt::format("take {} bytes for", spec.bytes), name_of(spec));
  }
  Reported<Ring> ring = map(descriptor.get(), spec, spec.bytes);
  if (!ring) return ring;
  RingHeader& header = *ring->header_;
  header.version = kRingVersion;
  header.shard = spec.shard;
  header.store = spec.store;
  header.boot = spec.boot;
  header.ring_bytes = spec.bytes;
  header.marks[0] = {.taken = 0, .log_position = spec.log_position};
  header.magic = kRingMagic;
  publish_u64(&header.checksum, checksum_of(header));
  ring->mark_ = header.marks[0];
  ring->log_end_ = spec.log_position;
  return ring;
}

Reported<Ring> Ring::take_up(const RingSpec& spec) {
  const Descriptor descriptor(::open(spec.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!descriptor) return report_errno(errno, "open", spec.path);
  struct stat facts = {};
  if (::fstat(descriptor.get(), &facts) != 0) return report_errno(errno, "look at", spec.path);
  const auto file_bytes = static_cast<uint64_t>(facts.st_size);
  RingHeader header = {};
  if (file_bytes < sizeof(header) ||
      ::pread(descriptor.get(), &header, sizeof(header), 0) != sizeof(header)) {
    return report(Code::kCorrupt, fmt::format("{} is no ring of a log", spec.path), "move it away");
  }
  if (Reported<> checked = check_header(header, spec, file_bytes); !checked) return report(checked.error());
  Reported<Ring> ring = map(descriptor.get(), spec, header.ring_bytes);
  if (!ring) return ring;
  if (!ring->find_end()) {
    return report(
        Code::kCorrupt, fmt::format("a record in {} is damaged", spec.path),
        "changes that were not in the log's files yet are lost: move it away to start without them");
  }
  return ring;
}

bool Ring::find_end() noexcept {
  mark_ = header_->marks[header_->mark_index % 2];
  appended_ = header_->appended;
  taken_ = mark_.taken;
  log_end_ = mark_.log_position;
  if (appended_ < taken_ || appended_ - taken_ > bytes_ || taken_ % kRecordUnit != 0) return false;
  for (uint64_t at = taken_; at < appended_;) {
    Record record;
    if (decode_record(bytes_at(at, appended_ - at), log_end_, key_of_log_, record) != RecordFault::kNone) {
      return false;
    }
    at += stored_bytes(record.form, record.key.size(), record.value_bytes);
    log_end_ += log_bytes(record.key.size(), record.value_bytes);
  }
  return true;
}

void Ring::append(const Record& record) noexcept {
  REFRACT_DCHECK(record.position == log_end_);
  std::byte* const place = data_ + appended_ % bytes_;
  publish_u64(&header_->last, appended_);  // (L2)
  const uint64_t bytes = encode_record(record, key_of_log_, place);
  appended_ += bytes;
  log_end_ += log_bytes(record.key.size(), record.value_bytes);
  publish_u64(&header_->appended, appended_);  // (L1)
}

std::optional<Record> Ring::last_record() const noexcept {
  const uint64_t last = observe_u64(&header_->last);
  if (last >= appended_ || appended_ - last > bytes_) return std::nullopt;
  const std::span<const std::byte> bytes = bytes_at(last, appended_ - last);
  RecordHeader header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  Record record;
  if (decode_record(bytes, header.position, key_of_log_, record) != RecordFault::kNone) return std::nullopt;
  return record;
}

void Ring::take(RingMark mark) noexcept {
  REFRACT_DCHECK(mark.taken >= mark_.taken && mark.taken % kRecordUnit == 0);
  const uint64_t other = (header_->mark_index + 1) % 2;
  header_->marks[other] = mark;
  publish_u64(&header_->mark_index, other);  // (L3)
  mark_ = mark;
  publish_u64(&taken_, mark.taken);  // (L4)
}

std::string ring_path_on_tmpfs(const StoreId& store, uint32_t shard) {
  struct statfs facts = {};
  if (::statfs(kTmpfsFolder, &facts) != 0 || facts.f_type != kTmpfsMagic) return {};
  if (::access(kTmpfsFolder, W_OK | X_OK) != 0) return {};
  std::string digits;
  for (size_t i = 0; i < 8; ++i) digits += fmt::format("{:02x}", std::to_integer<unsigned>(store[i]));
  return fmt::format("{}/refract-{}-{}.ring", kTmpfsFolder, digits, shard);
}

}  // namespace refract::storage
