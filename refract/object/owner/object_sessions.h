// SPDX-License-Identifier: Apache-2.0
// What the service of objects has of its sessions, and of the calls that wait.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/kv/owner/ports.h"
#include "refract/memory/remote_pointer.h"
#include "refract/object/layout/object_layout.h"
#include "refract/object/layout/object_wire.h"
#include "refract/rpc/server.h"

namespace refract::object {

[[nodiscard]] inline std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

// A copy of an id that a peer sent.
class TakenId {
 public:
  // From the front of `body`, which then holds the rest. kInvalidArgument: no id has such a length.
  // kMalformed: there are not so many bytes.
  [[nodiscard]] Code take(std::span<const std::byte>& body, size_t id_bytes) noexcept;
  // The same where nothing may follow.
  [[nodiscard]] Code take_last(std::span<const std::byte> body, size_t id_bytes) noexcept;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), size_}; }
  [[nodiscard]] std::string_view text() const noexcept { return text_of(bytes()); }

 private:
  std::array<std::byte, kIdBytesMax> bytes_;
  size_t size_ = 0;
};

// A creation, or a whole object, that is to be made.
struct MakeCall {
  rpc::Responder from;
  wire::Method method{};
  uint64_t birth = 0;
  uint64_t body_bytes = 0;
  uint32_t metadata_bytes = 0;
  bool wants_window = false;
  uint64_t until_ns = 0;
  std::span<const std::byte> id;
  std::span<const std::byte> body = {};  // Of a put, likewise the next.
  std::span<const std::byte> metadata = {};
};

// --- Sessions ---

struct Fetch {
  uint64_t number = 0;
  Offset object;
  uint64_t bytes = 0;
  kv::Window window;
};
struct Row {
  wire::ListedObject object{};
  Offset at;
  std::string id;
};
struct Rest {  // Of a step of a list that did not fit a message.
  uint64_t cursor = 0;
  uint64_t next = 0;
  std::vector<Row> rows;
};
struct Session {
  rpc::SessionId id;
  size_t payload_bytes_max = 0;
  bool has_windows = false;  // That it may WRITE into, and that say how much was written.
  bool reads_windows = false;
  uint32_t pull_region_min = 0;
  bool dies_with_peer = false;  // Its end says that its process is gone.
  size_t awaiting = 0;          // Calls that wait for objects or notices.
  std::vector<uint64_t> creations;
  std::vector<Fetch> fetches;
  Rest rest;
};

// --- What waits ---

// An id that a call is about to take, and what its home said.
struct ClaimedId {
  std::string id;
  uint64_t birth = 0;
  Code code = Code::kOk;
};
// A call that waits for that.
struct Claiming {
  rpc::Responder from;
  std::vector<std::byte> body;
  std::vector<ClaimedId> ids;
  size_t unanswered = 0;
};

struct PutMany {
  struct Entry {
    wire::PutRequest request{};
    Code refused = Code::kOk;  // Else it is not made.
    uint64_t birth = 0;
    size_t id_at = 0;    // In `ids`.
    size_t body_at = 0;  // In the body, whose metadata follows.
  };
  rpc::Responder from;
  std::vector<std::byte> ids;
  std::vector<Entry> entries;
  std::vector<uint16_t> codes;
  std::vector<std::byte> kept;  // The body, once the call waits.
};
struct Waiting {  // For room.
  MakeCall making = {};
  std::vector<std::byte> bytes = {};        // Id, body and metadata of `making`.
  std::unique_ptr<PutMany> many = nullptr;  // In place of both.
  // Turns, for what was overtaken while it was the first:
  uint64_t rooms_taken_before = 0;
  int turns = 0;
  uint64_t turn_until_ns = 0;
  [[nodiscard]] rpc::SessionId session() const noexcept {
    return many != nullptr ? many->from.session : making.from.session;
  }
  [[nodiscard]] size_t bytes_kept() const noexcept {
    return bytes.size() + (many != nullptr ? many->kept.size() : 0);
  }
};
struct Awaiting {
  rpc::Responder from;
  bool is_fetch = false;
  uint64_t until_ns = 0;
  uint64_t arrival = 0;           // Number of a call that looks elsewhere.
  bool is_looked_for = false;     // On other nodes; it waits for what they say, whatever until_ns.
  Code absent = Code::kNotFound;  // What they said last.
};
struct NoticeWait {
  rpc::Responder from;
  uint64_t cursor = 0;
  uint64_t until_ns = 0;
};
struct Evicting {
  rpc::Responder from;
  uint64_t bytes = 0;
  uint64_t done = 0;
};
struct Unclaimed {
  uint64_t until_ns = 0;
  uint64_t number = 0;
};

}  // namespace refract::object
