// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/registration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "refract/base/units.h"
#include "refract/fabric/region_table.h"
#include "refract/fabric/verbs/device.h"
#include "refract/fabric/verbs/library.h"
#include "refract/fabric/verbs/trouble.h"
#include "refract/memory/host/limits.h"

namespace refract::fabric::verbs {
namespace {

int access_of(Rights rights) noexcept {
  // Without the local right the device takes neither of the remote ones that change bytes.
  unsigned access = IBV_ACCESS_LOCAL_WRITE;
  if (rights.read) access |= IBV_ACCESS_REMOTE_READ;
  if (rights.write) access |= IBV_ACCESS_REMOTE_WRITE;
  if (rights.atomic) access |= IBV_ACCESS_REMOTE_ATOMIC;
  return static_cast<int>(access);
}

// Of rows, before memory counts as not registered: it is copied then.
constexpr int kLooksMax = 64;

bool holds(const ServedRegions::Row& row, const std::byte* data, uint64_t bytes) noexcept {
  const auto offset = static_cast<uint64_t>(data - row.spec.base);
  return offset <= row.spec.bytes && bytes <= row.spec.bytes - offset;
}

// `wanted` is all of it, of which the chunk of `bytes` is the one that failed.
Report why_not(const OpenDevice& device, uint64_t wanted, uint64_t bytes, int error) {
  return explain({.step = Step::kRegister,
                  .error = error,
                  .what = fmt::format("{} cannot register {}", device.facts().name, bytes_text(wanted)),
                  .pin_bytes = bytes});
}

}  // namespace

Registration::Registration(Registration&& other) noexcept {
  *this = std::move(other);
}

Registration& Registration::operator=(Registration&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(bytes_, other.bytes_);
  std::swap(chunk_bytes_, other.chunk_bytes_);
  chunks_.swap(other.chunks_);
  local_keys_.swap(other.local_keys_);
  remote_keys_.swap(other.remote_keys_);
  return *this;
}

Registration::~Registration() {
  for (ibv_mr* const chunk : chunks_) (void)device_->calls().dereg_mr(chunk);
}

Reported<Registration> Registration::make(const OpenDevice& device, const Wanted& wanted) {
  uint64_t chunk_bytes = device.facts().limits.region_bytes_max;
  if (wanted.chunk_bytes_max != 0) chunk_bytes = std::min(chunk_bytes, wanted.chunk_bytes_max);
  // Whole pages of any size, so that no atomic and no page lies in two chunks.
  if (chunk_bytes >= 2 * kMiB) chunk_bytes -= chunk_bytes % (2 * kMiB);
  // Of offsets: what lies below the first is registered in no chunk.
  const uint64_t bytes = wanted.first + wanted.bytes.size();
  if (chunk_bytes >= bytes) chunk_bytes = round_up(bytes, 8);
  if (reinterpret_cast<uintptr_t>(wanted.bytes.data()) % kPageBytes != wanted.first) {
    return report(Code::kInvalidArgument, "memory for a device begins at a page, or says where in one",
                  "align the region to 4096 bytes");
  }
  if (wanted.bytes.empty() || chunk_bytes <= wanted.first || chunk_bytes % 8 != 0 ||
      (bytes - 1) / chunk_bytes >= kChunksMax) {
    return report(Code::kInvalidArgument,
                  fmt::format("{} bytes cannot be registered in at most {} chunks of {}", bytes, kChunksMax,
                              chunk_bytes),
                  "serve them as several regions");
  }
  Registration made;
  made.device_ = &device;
  made.bytes_ = wanted.bytes;
  made.chunk_bytes_ = chunk_bytes;
  for (uint64_t begin = 0; begin < bytes; begin += chunk_bytes) {
    const uint64_t offset = std::max(begin, wanted.first);
    const uint64_t length = std::min(begin + chunk_bytes, bytes) - offset;
    ibv_mr* const chunk =
        device.calls().reg_mr_iova(device.pd(), wanted.bytes.data() + (offset - wanted.first), length,
                                   /*iova=*/offset, access_of(wanted.rights));
    if (chunk == nullptr) return report(why_not(device, bytes, bytes - offset, errno));
    made.chunks_.push_back(chunk);
    made.local_keys_.push_back(chunk->lkey);
    made.remote_keys_.push_back(chunk->rkey);
  }
  return made;
}

Reported<> ServedRegions::add(const Domain::RegionSpec& spec, RemoteKey key, uint64_t chunk_bytes_max) {
  if (!is_sound(spec) || key.bits == 0) {
    return report(Code::kInvalidArgument, fmt::format("region {} cannot be served", spec.region),
                  "a region has a base, a length below 2^48 and a key other than 0");
  }
  if (std::ranges::any_of(rows_, [&spec](const Row& row) { return row.spec.region == spec.region; })) {
    return report(Code::kInvalidArgument, fmt::format("region {} is registered already", spec.region),
                  "revoke it first");
  }
  Row row{.spec = spec, .key = key, .chunk_bytes_max = chunk_bytes_max, .registration = {}};
  if (device_->is_open()) {
    if (auto made = make(row); !made) return made;
  }
  const auto place = std::ranges::find_if(
      rows_, [&spec](const Row& each) { return std::greater<>()(each.spec.base, spec.base); });
  rows_.insert(place, std::move(row));
  return {};
}

Reported<> ServedRegions::make(Row& row) const {
  auto made = Registration::make(*device_, {.bytes = {row.spec.base, row.spec.bytes},
                                            .rights = row.spec.rights,
                                            .first = row.spec.first,
                                            .chunk_bytes_max = row.chunk_bytes_max});
  if (!made) return report(made.error());
  row.registration = std::move(*made);
  return {};
}

void ServedRegions::suspend() noexcept {
  for (Row& row : rows_) row.registration = Registration();
}

Reported<> ServedRegions::resume() {
  for (Row& row : rows_) {
    if (auto made = make(row); !made) return made;
  }
  return {};
}

bool ServedRegions::remove(uint16_t region) noexcept {
  return std::erase_if(rows_, [region](const Row& row) { return row.spec.region == region; }) > 0;
}

const ServedRegions::Row* ServedRegions::find(uint16_t region, RemoteKey key) const noexcept {
  const auto found = std::ranges::find_if(
      rows_, [&](const Row& row) { return row.spec.region == region && row.key == key; });
  return found == rows_.end() ? nullptr : &*found;
}

LocalPlace ServedRegions::find_local(const std::byte* data, uint64_t bytes) const noexcept {
  const auto behind =
      std::ranges::upper_bound(rows_, data, std::less<>(), [](const Row& row) { return row.spec.base; });
  if (behind == rows_.begin()) return {};
  // A window lies inside of a larger region, whose row stands before its own.
  auto row = std::prev(behind);
  for (int looks = 1; row != rows_.begin() && looks < kLooksMax && !holds(*row, data, bytes); ++looks) --row;
  if (!holds(*row, data, bytes)) return {};
  const uint64_t offset = row->spec.first + static_cast<uint64_t>(data - row->spec.base);
  const uint64_t chunk_bytes = row->registration.chunk_bytes();
  return {.address = offset,
          .key = row->registration.local_key(offset),
          .bytes = std::min(bytes, chunk_bytes - offset % chunk_bytes)};
}

}  // namespace refract::fabric::verbs
