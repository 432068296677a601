// SPDX-License-Identifier: Apache-2.0
// Any bytes as a snapshot's file: refused, or read without touching what is not there. The first byte says
// whether the checksums of header, blocks and footer are made right first, or what lies behind them would
// never be reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/hash.h"
#include "refract/storage/snapshot/snapshot_file.h"
#include "refract/storage/testing/simulated_disk.h"

namespace {

using namespace refract;
using namespace refract::storage;

// Gives the structure at `at` the checksum that belongs to it, and returns that.
uint64_t seal(std::vector<std::byte>& bytes, size_t at, size_t length, uint64_t key) {
  const uint64_t checksum = XXH3_64bits_withSeed(bytes.data() + at, length - sizeof(uint64_t), key);
  std::memcpy(bytes.data() + at + length - sizeof(uint64_t), &checksum, sizeof(checksum));
  return checksum;
}

void seal_all(std::vector<std::byte>& bytes) {
  if (bytes.size() < sizeof(SnapshotHeader)) return;
  const uint64_t key = seal(bytes, 0, sizeof(SnapshotHeader), 0);
  for (size_t at = kSectorBytes; at + sizeof(SnapshotBlockHeader) <= bytes.size(); at += kSectorBytes) {
    SnapshotBlockHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof(header));
    if (header.magic != kSnapshotBlockMagic && header.magic != kSnapshotFooterMagic) continue;
    header.key = key;
    std::memcpy(bytes.data() + at, &header, sizeof(header));
    const size_t room = bytes.size() - at - sizeof(header);
    if (header.magic == kSnapshotBlockMagic && header.payload_bytes <= room) {
      header.payload_checksum =
          XXH3_64bits_withSeed(bytes.data() + at + sizeof(header), header.payload_bytes, key);
      std::memcpy(bytes.data() + at, &header, sizeof(header));
    }
    (void)seal(bytes, at, sizeof(header), key);
  }
}

void read_all(const SnapshotReader& reader) {
  auto file = reader.open_file();
  REFRACT_CHECK(file.has_value());
  std::vector<std::byte> room;
  for (uint64_t index = 0; index < reader.block_count(); ++index) {
    const auto block = reader.read(**file, index, room);
    if (!block) continue;
    REFRACT_CHECK(!block->payload.empty() && block->payload.size() <= kSnapshotPayloadMax);
    REFRACT_CHECK(block->payload.data() + block->payload.size() <= room.data() + room.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::vector<std::byte> bytes(size - 1);
  std::copy_n(reinterpret_cast<const std::byte*>(data + 1), bytes.size(), bytes.begin());
  if (data[0] % 2 == 0) seal_all(bytes);
  // A header that is damaged behind the sealing: the blocks answer for themselves.
  if (data[0] % 4 == 0 && !bytes.empty()) bytes[0] ^= std::byte{1};
  SimulatedDisk disk({});
  const std::string name = snapshot_name(0, 1);
  REFRACT_CHECK(disk.open(name, OpenMode::kCreate).has_value());
  disk.replace(name, bytes);
  if (const auto reader = SnapshotReader::open(disk, name)) read_all(**reader);
  if (const auto reader = SnapshotReader::salvage(disk, name)) read_all(**reader);
  return 0;
}
