// SPDX-License-Identifier: Apache-2.0
// Pilaf's client: a get READs an entry, then the blob that it names; puts and erases are calls.
//
// Lookup is the get without the network: what it wants to read next, and what it makes of the bytes. So the
// same code runs over a channel and, in tests, over every order in which stores can become visible.
//
// Threads: a client is used only by its shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/designs/design.h"
#include "refract/kv/designs/pilaf/layout.h"

namespace refract::kv::pilaf {

// One get. REQUIRES: root and key outlive it; the root verifies.
class Lookup {
 public:
  using Bytes = std::span<const std::byte>;

  enum class Step : uint8_t {
    kRead,    // Hand the bytes at wanted() to take().
    kTorn,    // Likewise, but after a pause: what was there last did not verify.
    kFound,   // value() is it.
    kAbsent,  // There was no such key at some moment within the look-up.
    kMoved,   // The root counts no longer: learn the new one and begin again.
  };
  struct Range {
    uint64_t at = 0;  // An offset in the region.
    uint64_t bytes = 0;
  };

  // `moves`: the root's count of moves as it was read at any moment before this one.
  Lookup(const Root& root, uint64_t moves, Bytes key) noexcept;

  [[nodiscard]] Range wanted() const noexcept { return wanted_; }
  // REQUIRES: as many bytes as wanted, aligned to 8; after kFound they stay.
  [[nodiscard]] Step take(Bytes bytes) noexcept;
  [[nodiscard]] Bytes value() const noexcept { return value_; }

  // The latest that it has seen.
  [[nodiscard]] uint64_t moves() const noexcept { return moves_; }
  struct Counts {
    uint32_t entries = 0;  // READs of each kind, repetitions too.
    uint32_t blobs = 0;
    uint32_t roots = 0;
    uint32_t torn = 0;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  enum class Phase : uint8_t { kEntry, kBlob, kRoot };

  void want_entry() noexcept;
  void want_root() noexcept;
  [[nodiscard]] Step take_entry(Bytes bytes) noexcept;
  [[nodiscard]] Step take_blob(Bytes bytes) noexcept;
  [[nodiscard]] Step take_root(Bytes bytes) noexcept;
  [[nodiscard]] Step next_place() noexcept;
  [[nodiscard]] Step torn() noexcept;

  const Root& root_;
  uint64_t moves_;
  Bytes key_;
  Places places_;
  size_t way_ = 0;
  Phase phase_ = Phase::kEntry;
  Range wanted_;
  uint64_t blob_crc_ = 0;
  Bytes value_;
  Counts counts_;
};

class PilafClient final : public designs::Client {
 public:
  explicit PilafClient(const designs::ClientParts& parts) noexcept : parts_(parts) {}

  [[nodiscard]] runtime::Task<Result<>> attach(uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<Result<uint64_t>> get(Bytes key, ValueSink& sink,
                                                    uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<Result<>> put(Bytes key, Bytes value, uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<Result<>> erase(Bytes key, uint64_t deadline_ns) override;
  // It owes nothing.
  [[nodiscard]] runtime::Task<Result<>> settle(uint64_t deadline_ns) override;

  // Over all gets.
  struct Counts {
    uint64_t gets = 0;
    uint64_t entries = 0;
    uint64_t blobs = 0;
    uint64_t roots = 0;
    uint64_t torn = 0;
    uint64_t moved = 0;  // Roots that had to be learnt again.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  // Where a READ lands. One whose READ was given up belongs to the channel for ever: it comes back to no get.
  class Landing;

  [[nodiscard]] uint64_t deadline_or_default(uint64_t deadline_ns) const noexcept {
    return deadline_ns != 0 ? deadline_ns : parts_.shard.now_ns() + parts_.timeout_ns;
  }
  [[nodiscard]] runtime::Task<Code> read(Landing& landing, Lookup::Range place, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> learn_root(uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Lookup::Step> look_up(Lookup& lookup, Landing& landing, Code& code,
                                                    uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<>> change(uint16_t method, Bytes key, Bytes value, uint64_t deadline_ns);

  designs::ClientParts parts_;
  AttachReply at_{};
  Root root_{};
  uint64_t moves_ = 0;
  std::vector<std::unique_ptr<uint64_t[]>> landings_;  // Free ones, of landing_words_ each.
  std::vector<std::unique_ptr<uint64_t[]>> lost_;
  size_t landing_words_ = 0;
  Counts counts_;
};

// The row's entry.
[[nodiscard]] std::unique_ptr<designs::Client> make_client(const designs::ClientParts& parts);

}  // namespace refract::kv::pilaf
