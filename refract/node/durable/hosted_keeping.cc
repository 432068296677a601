// SPDX-License-Identifier: Apache-2.0
#include "refract/node/durable/hosted_keeping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"
#include "refract/base/printable.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {
namespace {

static_assert(sizeof(StoreName) + kHostedPieceBytesMax == storage::kSnapshotPayloadMax);

Reported<> outcome_of(Code code, StoreName name, const char* what) {
  if (code == Code::kOk) return {};
  const std::string store = printable(name.text());
  switch (code) {
    case Code::kUnsupported:
      return report(
          code,
          fmt::format("the disk has {} of a store \"{}\", which this program does not host", what, store),
          "start a refractd that hosts it; nothing on the disk was changed");
    case Code::kNoSpace:
      return report(code, fmt::format("{} of the store \"{}\" does not fit into the memory", what, store),
                    "start with a higher --memory-limit; nothing on the disk was changed");
    default:
      return report(Code::kCorrupt, fmt::format("the store \"{}\" cannot read {} of its own", store, what),
                    "start the release that wrote it; nothing on the disk was changed");
  }
}

// Again and again while memory comes.
template <typename Try>
Code with_room(const Grow& grow, uint64_t bytes, Try&& attempt) {
  Code code = attempt();
  while (code == Code::kNoSpace && grow(bytes)) code = attempt();
  return code;
}

}  // namespace

HostedStore* HostedKeeping::find(StoreName name) const noexcept {
  const auto found = std::ranges::find(stores_, name, &Row::name);
  return found == stores_.end() ? nullptr : found->store;
}

Reported<> HostedKeeping::replay(const storage::Record& record, const Grow& grow) const {
  HostedStore* const store = find(record.store);
  const auto attempt = [&] { return store->replay(record); };
  const Code code = store == nullptr ? Code::kUnsupported
                                     : with_room(grow, record.key.size() + record.value.size(), attempt);
  return outcome_of(code, record.store, "a change");
}

Reported<> HostedKeeping::restore(std::span<const std::byte> payload, const Grow& grow) const {
  StoreName name;
  if (payload.size() < sizeof(name))
    return report(Code::kCorrupt, "a store's block is shorter than its name");
  std::memcpy(&name, payload.data(), sizeof(name));
  const std::span<const std::byte> piece = payload.subspan(sizeof(name));
  HostedStore* const store = find(name);
  const auto attempt = [&] { return store->restore(piece); };
  return outcome_of(store == nullptr ? Code::kUnsupported : with_room(grow, piece.size(), attempt), name,
                    "a snapshot's block");
}

std::vector<std::vector<std::byte>> HostedKeeping::snapshot() const {
  std::vector<std::vector<std::byte>> payloads;
  for (const Row& row : stores_) {
    row.store->snapshot([&](std::span<const std::byte> piece) {
      REFRACT_CHECK(piece.size() <= kHostedPieceBytesMax);
      std::vector<std::byte>& payload = payloads.emplace_back(sizeof(row.name) + piece.size());
      std::memcpy(payload.data(), &row.name, sizeof(row.name));
      std::ranges::copy(piece, payload.begin() + sizeof(row.name));
    });
  }
  return payloads;
}

}  // namespace refract::node
