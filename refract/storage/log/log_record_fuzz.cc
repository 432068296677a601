// SPDX-License-Identifier: Apache-2.0
// Any bytes as a record: refused, or sound in themselves. The first byte says whether the checksum is made
// right first, or what lies behind it would never be reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/hash.h"
#include "refract/storage/group.h"
#include "refract/storage/record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace refract;
  using namespace refract::storage;
  if (size < 1) return 0;
  constexpr uint64_t kKeyOfLog = 42;
  // Storage of exactly that length, so that the sanitizer sees a read behind it.
  std::vector<std::byte> bytes(size - 1);
  std::copy_n(reinterpret_cast<const std::byte*>(data + 1), bytes.size(), bytes.begin());
  uint64_t position = 0;
  if (bytes.size() >= sizeof(RecordHeader)) {
    std::memcpy(&position, bytes.data() + offsetof(RecordHeader, position), sizeof(position));
    // Records stand at multiples of their unit, and nowhere else is one looked for.
    position -= position % kRecordUnit;
    if (data[0] % 2 == 0) {
      const uint64_t checksum = XXH3_64bits(bytes.data() + 8, bytes.size() - 8) ^ kKeyOfLog;
      std::memcpy(bytes.data(), &checksum, sizeof(checksum));
    }
  }
  Record record;
  const std::optional<LogMark> mark = decode_mark(bytes, position, kKeyOfLog);
  REFRACT_CHECK(!mark || decode_record(bytes, position, kKeyOfLog, record) != RecordFault::kNone);
  if (decode_record(bytes, position, kKeyOfLog, record) != RecordFault::kNone) {
    REFRACT_CHECK(record.key.empty());
    return 0;
  }
  const bool is_group = storage::is_group(record.kind);
  REFRACT_CHECK(may_have_key(record.kind, record.key.size()) && record.value_bytes <= kRecordValueBytesMax);
  const std::byte* const end = bytes.data() + bytes.size();
  REFRACT_CHECK(record.key.data() + record.key.size() <= end);
  REFRACT_CHECK(record.value.empty() || record.value.data() + record.value.size() <= end);
  std::vector<std::byte> again(stored_bytes(record.form, record.key.size(), record.value_bytes));
  encode_record(record, kKeyOfLog, again.data());
  Record back;
  REFRACT_CHECK(decode_record(again, position, kKeyOfLog, back) == RecordFault::kNone);
  if (!is_group) return 0;
  uint64_t last_stamp = record.stamp;
  GroupReader changes(record);
  while (const auto change = changes.next()) {
    REFRACT_CHECK(change->stamp > last_stamp && !change->key.empty());
    REFRACT_CHECK(change->key.data() >= record.value.data() &&
                  change->value.data() + change->value.size() <= end);
    last_stamp = change->stamp;
  }
  REFRACT_CHECK(changes.is_complete() && last_stamp == last_stamp_of(record));
  return 0;
}
