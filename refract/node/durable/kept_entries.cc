// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/kept_entries.h"

#include <cstring>
#include <optional>
#include <utility>

#include "refract/base/check.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/owner/snapshot/snapshot_block.h"

namespace refract::node {
namespace {

// An entry's buffer, which lies where no other does, at offset 0.
class OneBuffer {
 public:
  explicit OneBuffer(const std::vector<std::byte>& bytes) noexcept : bytes_(bytes) {}
  void copy(std::byte* to, Offset from, uint64_t count) const noexcept {
    REFRACT_DCHECK(from.value + count <= bytes_.size());
    if (count > 0) std::memcpy(to, bytes_.data() + from.value, count);
  }

 private:
  const std::vector<std::byte>& bytes_;
};

class FileSink final : public kv::SnapshotSink {
 public:
  explicit FileSink(storage::SnapshotWriter& file) noexcept : file_(file) {}
  [[nodiscard]] Code write(const kv::SnapshotBlock& block) override {
    Reported<> written = file_.write(static_cast<uint64_t>(block.kind), block.entries, block.bytes);
    if (written) return Code::kOk;
    failure_ = std::move(written.error());
    return failure_->code;
  }
  [[nodiscard]] std::unexpected<Report> failure() const { return report(*failure_); }

 private:
  storage::SnapshotWriter& file_;
  std::optional<Report> failure_;
};

[[nodiscard]] kv::Lengths lengths_of(const kv::ChangeLog::Change& change) noexcept {
  uint16_t flags = 0;
  if (change.expires_wall_ns != 0) flags |= kv::Lengths::kExpires;
  if (change.request.client != 0) flags |= kv::Lengths::kIdentified;
  return {.value_bytes = static_cast<uint32_t>(change.value.size()),
          .key_bytes = static_cast<uint16_t>(change.key.size()),
          .flags = flags};
}

[[nodiscard]] std::vector<std::byte> buffer_of(const kv::ChangeLog::Change& change) {
  const kv::Lengths lengths = lengths_of(change);
  std::vector<std::byte> buffer(lengths.total_bytes());
  const auto set = [&](uint64_t at, uint64_t word) { std::memcpy(buffer.data() + at, &word, sizeof(word)); };
  set(0, change.stamp);
  set(offsetof(kv::BufferHeader, lengths), lengths.word());
  if (change.expires_wall_ns != 0) set(kv::kExpiryAt, change.expires_wall_ns);
  if (change.request.client != 0) {
    set(lengths.identity_at(), change.request.client);
    set(lengths.identity_at() + sizeof(uint64_t), change.request.sequence);
  }
  std::memcpy(buffer.data() + lengths.key_at(), change.key.data(), change.key.size());
  if (!change.value.empty()) {
    std::memcpy(buffer.data() + lengths.value_at(), change.value.data(), change.value.size());
  }
  return buffer;
}

}  // namespace

void KeptEntries::apply(const kv::ChangeLog::Change& change) {
  const std::string_view key(reinterpret_cast<const char*>(change.key.data()), change.key.size());
  const auto found = entries_.find(key);
  if (found != entries_.end() && found->second.stamp >= change.stamp) return;
  if (change.kind == kv::ChangeLog::Kind::kErase) {
    if (found != entries_.end()) entries_.erase(found);
    return;
  }
  Kept kept{.stamp = change.stamp, .buffer = buffer_of(change)};
  if (found != entries_.end()) {
    found->second = std::move(kept);
  } else {
    entries_.emplace(key, std::move(kept));
  }
}

Reported<storage::SnapshotTotals> KeptEntries::write(storage::Disk& disk,
                                                     const storage::SnapshotFacts& facts) const {
  const auto file = storage::SnapshotWriter::create(disk, facts, {});
  if (!file) return report(file.error());
  FileSink sink(**file);
  kv::SnapshotBlockWriter blocks(sink);
  for (const auto& [key, kept] : entries_) {
    REFRACT_CHECK(kept.stamp < facts.stamp);
    OneBuffer memory(kept.buffer);
    uint64_t lengths = 0;
    std::memcpy(&lengths, kept.buffer.data() + offsetof(kv::BufferHeader, lengths), sizeof(lengths));
    const kv::SnapshotSource source{
        .buffer = {0}, .stamp = kept.stamp, .lengths = kv::Lengths::from_word(lengths)};
    if (blocks.put(memory, source) != Code::kOk) return sink.failure();
  }
  if (blocks.flush() != Code::kOk) return sink.failure();
  return (*file)->finish();
}

}  // namespace refract::node
