// SPDX-License-Identifier: Apache-2.0
// Any bytes as a log's file: read alone, and as the only file of a log with salvage, without touching what is
// not there, and handing out nothing but records that are sound in themselves. The first byte says whether
// the checksums of the header and of what looks like records and marks are made right first, or what lies
// behind them would never be reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/hash.h"
#include "refract/storage/log/log_reader.h"
#include "refract/storage/testing/simulated_disk.h"

namespace {

using namespace refract;
using namespace refract::storage;

constexpr LogId kLog = {.store = {std::byte{1}}, .shard = 0};

void seal_header(std::vector<std::byte>& bytes) {
  if (bytes.size() < sizeof(SegmentHeader)) return;
  SegmentHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.magic = kSegmentMagic;
  header.version = kSegmentVersion;
  header.store = kLog.store;
  header.shard = kLog.shard;
  header.checksum = XXH3_64bits(&header, offsetof(SegmentHeader, checksum));
  std::memcpy(bytes.data(), &header, sizeof(header));
}

// Every place that names itself as the position where it stands.
void seal_records(std::vector<std::byte>& bytes) {
  const uint64_t key = log_key(kLog.store, kLog.shard);
  for (size_t at = kSegmentHeaderBytes; at + sizeof(RecordHeader) <= bytes.size(); at += kRecordUnit) {
    RecordHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof(header));
    const uint64_t position = kFirstPosition + at - kSegmentHeaderBytes;
    if (header.position != position) continue;
    uint64_t count = sizeof(header);
    RecordHeader found;
    if (peek_record(std::span(bytes).subspan(at), position, found) == RecordFault::kNone) {
      count = stored_bytes(found.form, found.key_bytes, found.value_bytes);
    }
    if (count > bytes.size() - at) continue;
    const uint64_t checksum = XXH3_64bits(bytes.data() + at + 8, count - 8) ^ key;
    std::memcpy(bytes.data() + at, &checksum, sizeof(checksum));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::vector<std::byte> bytes(size - 1);
  std::copy_n(reinterpret_cast<const std::byte*>(data + 1), bytes.size(), bytes.begin());
  if (data[0] % 2 == 0) seal_header(bytes);
  if (data[0] % 4 < 2) seal_records(bytes);
  SimulatedDisk disk({});
  const std::string name = segment_name(kLog.shard, kFirstPosition);
  REFRACT_CHECK(disk.open(name, OpenMode::kCreate).has_value());
  disk.replace(name, bytes);
  (void)read_segment_alone(disk, kLog, name).has_value();
  uint64_t last_stamp = 0;
  const auto read = read_log(disk, kLog, nullptr, nullptr, {.salvage = true}, [&](const Record& record) {
    REFRACT_CHECK(may_have_key(record.kind, record.key.size()) && record.value.size() == record.value_bytes);
    REFRACT_CHECK(record.stamp > last_stamp);
    last_stamp = last_stamp_of(record);
  });
  if (!read) return 0;
  for (const LogDamage& damage : read->damages) (void)damage.to_string();
  return 0;
}
