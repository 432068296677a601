// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/ring/ring.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/hash.h"
#include "refract/storage/posix_disk.h"
#include "refract/storage/ring/ring_file.h"

namespace refract::storage {
namespace {

constexpr uint64_t kPageBytes = 4096;

}  // namespace

uint64_t checksum_of(const RingHeader& header) noexcept {
  return XXH3_64bits(&header, offsetof(RingHeader, checksum));
}

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

Reported<Ring> Ring::map(const RingFile& file) {
  const uint64_t bytes = file.ring_bytes();
  void* const reserved =
      ::mmap(nullptr, kPageBytes + 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return report_errno(errno, "map", file.path());
  Ring ring;
  ring.header_ = static_cast<RingHeader*>(reserved);
  ring.data_ = static_cast<std::byte*>(reserved) + kPageBytes;
  ring.bytes_ = bytes;
  ring.key_of_log_ = log_key(file.identity().store, file.identity().shard);
  const int access = file.is_writable() ? PROT_READ | PROT_WRITE : PROT_READ;
  constexpr int kKind = MAP_SHARED | MAP_FIXED | MAP_POPULATE;
  if (::mmap(reserved, kPageBytes + bytes, access, kKind, file.descriptor(), 0) == MAP_FAILED ||
      ::mmap(ring.data_ + bytes, bytes, access, kKind, file.descriptor(), kPageBytes) == MAP_FAILED) {
    return report_errno(errno, "map", file.path());
  }
  return ring;
}

Reported<Ring> Ring::open(const RingFile& file) {
  Reported<Ring> ring = map(file);
  if (!ring || !ring->is_in_use() || ring->find_end()) return ring;
  return report(Code::kCorrupt, fmt::format("a record in {} is damaged", file.path()),
                "changes that were not in the log's files yet are lost: save the rest with refract restore "
                "--salvage");
}

Reported<Ring> Ring::open_emptied(const RingFile& file) {
  Reported<Ring> ring = map(file);
  if (!ring) return ring;
  ring->set_failed(true);
  publish_u64(&ring->header_->is_in_use, 0);
  return ring;
}

void Ring::empty() noexcept {
  publish_u64(&header_->failure, 0);
  publish_u64(&header_->is_in_use, 0);
}

void Ring::begin(uint64_t log_position) noexcept {
  REFRACT_CHECK(log_position % kRecordUnit == 0);
  REFRACT_CHECK(!is_in_use());
  mark_ = {.taken = 0, .log_position = log_position};
  appended_ = 0;
  log_end_ = log_position;
  publish_u64(&taken_, 0);
  header_->marks[0] = header_->marks[1] = mark_;
  header_->mark_index = 0;
  header_->last = 0;
  publish_u64(&header_->appended, 0);
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

std::byte* Ring::begin_append() noexcept {
  publish_u64(&header_->last, appended_);  // (L2)
  return data_ + appended_ % bytes_;
}

void Ring::publish_appended(uint64_t stored, uint64_t log_bytes) noexcept {
  appended_ += stored;
  log_end_ += log_bytes;
  publish_u64(&header_->appended, appended_);  // (L1)
}

void Ring::append(const Record& record) noexcept {
  REFRACT_DCHECK(record.position == log_end_);
  const uint64_t bytes = encode_record(record, key_of_log_, begin_append());
  publish_appended(bytes, log_bytes(record.key.size(), record.value_bytes));
}

void Ring::append_group(const GroupPlace& group, std::span<const Record> changes) noexcept {
  REFRACT_DCHECK(group.position == log_end_);
  const uint64_t bytes = encode_group(group, changes, key_of_log_, begin_append());
  publish_appended(bytes, bytes);
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

}  // namespace refract::storage
