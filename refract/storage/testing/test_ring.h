// SPDX-License-Identifier: Apache-2.0
// A ring in a test's folder, which outlives a log as a keeper's does, until the host goes down.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/testing/needed.h"
#include "refract/storage/ring/ring_file.h"

namespace refract::storage {

class KeptRing {
 public:
  KeptRing(const std::string& folder, const StoreId& store, uint32_t shard,
           uint64_t ring_bytes = kRingBytesMin)
      : folder_(test::needed(RingFolder::open(folder))), ring_bytes_(ring_bytes) {
    identity_ = {.store = store, .shard = shard, .boot = {std::byte{9}}, .number = 1};
    lose();
  }

  [[nodiscard]] const RingFile* file() const noexcept { return &*file_; }
  [[nodiscard]] const RingFolder& folder() const noexcept { return folder_; }
  [[nodiscard]] const RingIdentity& identity() const noexcept { return identity_; }
  [[nodiscard]] std::string path() const { return folder_.path_of(ring_name(identity_.shard)); }

  // The host goes down: the next one holds nothing.
  void lose() {
    ++identity_.number;
    file_.reset();
    file_.emplace(test::needed(RingFile::make(folder_, identity_, ring_bytes_)));
  }
  // The keeper ends, and another one takes the ring up.
  [[nodiscard]] Reported<> take_up_again() {
    file_.reset();
    auto taken = RingFile::take_up(folder_, identity_);
    if (!taken) return report(taken.error());
    file_.emplace(*std::move(taken));
    return {};
  }

 private:
  RingFolder folder_;
  RingIdentity identity_;
  uint64_t ring_bytes_;
  std::optional<RingFile> file_;
};

}  // namespace refract::storage
