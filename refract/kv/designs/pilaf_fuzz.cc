// SPDX-License-Identifier: Apache-2.0
// Arbitrary bodies as Pilaf's calls, and arbitrary memory below its look-up. Every call is answered by a code
// of its contract; what was answered with success, and nothing else, is what the store holds afterwards; and
// a look-up stays within what it asked for.
//
// Input: a byte, even for calls, odd for a look-up. Of calls: which one, two bytes of length, the body; where
// the topmost bit of the first byte is set, the body is key and value alone, behind a header that fits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "refract/base/check.h"
#include "refract/kv/designs/pilaf/client.h"
#include "refract/kv/designs/pilaf/layout.h"
#include "refract/kv/designs/test_store.h"

namespace refract::kv::pilaf {
namespace {

using designs::LoopbackStore;
using Bytes = std::span<const std::byte>;

// Small, so that the table grows, and blobs run out, within an input.
constexpr designs::Capacity kCapacity = {
    .keys_max = 24, .keys_at_start = 8, .key_bytes_max = 8, .value_bytes_max = 120, .spare_values = 1};
constexpr size_t kCallsMax = 256;
constexpr size_t kBodyMost = 512;  // One fits a message with its headers.
// A store is made for each input.
constexpr designs::LoopbackSizes kSizes = {.link = {.depth = 8, .message_bytes_max = 1024}, .ops_max = 32};

const designs::Design& row() {
  return *designs::find("pilaf");
}

std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Call {
  uint16_t method = kMethodPut;
  std::vector<std::byte> body;  // Of exactly its length, so that the sanitizer sees a read behind it.
};

// The next call; the input continues behind it.
Call take_call(Bytes& input) {
  constexpr uint16_t kMethods[] = {kMethodPut, kMethodErase, kMethodPut, kMethodAttach, 0x3ff};
  const auto choice = std::to_integer<uint8_t>(input[0]);
  const size_t wanted = std::to_integer<size_t>(input[1]) | std::to_integer<size_t>(input[2]) << 8;
  input = input.subspan(3);
  const Bytes bytes = input.first(std::min({wanted, input.size(), kBodyMost}));
  input = input.subspan(bytes.size());
  Call call{.method = kMethods[(choice & 0x7f) % std::size(kMethods)], .body = {}};
  if ((choice & 0x80) != 0) {
    // Keys of one byte meet again.
    const size_t key_bytes = call.method == kMethodErase ? bytes.size() : std::min<size_t>(bytes.size(), 1);
    const BlobHeader header{.key_bytes = static_cast<uint32_t>(key_bytes),
                            .value_bytes = static_cast<uint32_t>(bytes.size() - key_bytes)};
    std::ranges::copy(std::as_bytes(std::span(&header, 1)), std::back_inserter(call.body));
  }
  call.body.insert(call.body.end(), bytes.begin(), bytes.end());
  return call;
}

using Model = std::map<std::string, std::string>;

// What the store holds after a call that was executed.
void follow(Model& model, const Call& call) {
  BlobHeader header{};
  REFRACT_CHECK(call.body.size() >= sizeof(header));
  std::memcpy(&header, call.body.data(), sizeof(header));
  const Bytes rest = Bytes(call.body).subspan(sizeof(header));
  REFRACT_CHECK(uint64_t{header.key_bytes} + header.value_bytes == rest.size());
  const std::string key = text_of(rest.first(header.key_bytes));
  if (call.method == kMethodPut) {
    model.insert_or_assign(key, text_of(rest.subspan(header.key_bytes)));
  } else {
    REFRACT_CHECK(model.erase(key) == 1);
  }
}

bool is_refusal(Code code) {
  return code == Code::kMalformed || code == Code::kInvalidArgument || code == Code::kTooLarge ||
         code == Code::kNoSpace || code == Code::kNotFound;
}

void serve(Bytes input) {
  LoopbackStore store(row(), kCapacity, nullptr, kSizes);
  const LoopbackStore::Peer peer = store.connect(row());
  Model model;
  for (size_t calls = 0; input.size() >= 3 && calls < kCallsMax; ++calls) {
    const Call call = take_call(input);
    const runtime::OpResult reply = peer.session->call_and_wait({.method = call.method, .tail = call.body},
                                                                store.shard().refresh_now() + kSecond_ns);
    if (call.method == kMethodAttach) {
      REFRACT_CHECK(reply.code == Code::kOk && reply.bytes.size() == sizeof(AttachReply));
    } else if (call.method != kMethodPut && call.method != kMethodErase) {
      REFRACT_CHECK(reply.code == Code::kUnsupported);
    } else if (reply.code == Code::kOk) {
      follow(model, call);
    } else {
      REFRACT_CHECK(is_refusal(reply.code));
    }
  }
  REFRACT_CHECK(store.server().contradiction() == std::nullopt);
  REFRACT_CHECK(store.server().facts().keys == model.size());
  for (const auto& [key, value] : model) REFRACT_CHECK(store.get(key).value == value);
}

// What a client makes of a server's memory, whatever stands there. The first root is given, like one that
// verified; places outside of the memory read as zeroes.
void look_up(Bytes input) {
  constexpr size_t kReadsMax = 64;
  constexpr size_t kKeyBytes = 4;
  if (input.size() < kKeyBytes) return;
  const Bytes key = input.first(kKeyBytes);
  const std::vector<std::byte> memory(input.begin() + kKeyBytes, input.end());
  Root root{};
  root.state = Root::kMagic;
  root.entries = sizeof(Root);
  root.entry_count = 4;
  root.blob_bytes_max = 256;
  Lookup lookup(root, 0, key);
  Lookup::Step step = Lookup::Step::kRead;
  std::vector<uint64_t> landing;
  for (size_t reads = 0; reads < kReadsMax && (step == Lookup::Step::kRead || step == Lookup::Step::kTorn);
       ++reads) {
    const Lookup::Range place = lookup.wanted();
    REFRACT_CHECK(place.bytes <= std::max<uint64_t>(root.blob_bytes_max, sizeof(Root)));
    landing.assign((place.bytes + 7) / 8, 0);
    const std::span<std::byte> landed = std::as_writable_bytes(std::span(landing)).first(place.bytes);
    if (place.at < memory.size()) {
      std::ranges::copy(Bytes(memory).subspan(place.at, std::min(place.bytes, memory.size() - place.at)),
                        landed.begin());
    }
    // What a torn entry would hide is looked into, too.
    if (reads % 2 == 0 && place.bytes == sizeof(Entry)) {
      Entry entry;
      std::memcpy(&entry, landed.data(), sizeof(entry));
      const std::span<const std::byte> rest = memory;
      const bool has_blob = entry.blob <= rest.size() && entry.blob_bytes <= rest.size() - entry.blob;
      if (has_blob) entry.blob_crc = crc64(rest.subspan(entry.blob, entry.blob_bytes));
      entry.crc = crc_of(entry);
      std::memcpy(landed.data(), &entry, sizeof(entry));
    }
    step = lookup.take(landed);
  }
  if (step != Lookup::Step::kFound) return;
  const Bytes value = lookup.value();
  const Bytes landed = std::as_bytes(std::span(landing));
  REFRACT_CHECK(value.data() >= landed.data() && value.size() <= landed.size());
}

}  // namespace
}  // namespace refract::kv::pilaf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  const auto input = std::as_bytes(std::span(data, bytes)).subspan(1);
  if ((data[0] & 1) != 0) {
    refract::kv::pilaf::look_up(input);
  } else {
    refract::kv::pilaf::serve(input);
  }
  return 0;
}
