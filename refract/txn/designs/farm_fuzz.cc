// SPDX-License-Identifier: Apache-2.0
// Arbitrary bodies as FaRM's calls, and arbitrary bytes as an object that was read. Every call is answered by
// a code of its contract, and leaves a store that does not contradict itself; an object lies within what was
// read.
//
// Input: a byte, even for calls, odd for an object. Of calls: which one, two bytes of length, the body; where
// the topmost bit of the first byte is set, the body begins with the first object's place and version.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include "refract/base/check.h"
#include "refract/txn/designs/farm/client.h"
#include "refract/txn/designs/farm/object.h"
#include "refract/txn/designs/test_sim_store.h"

namespace refract::txn::farm {
namespace {

using designs::Bytes;
using designs::bytes_of;
using designs::SimClient;
using designs::SimServer;

constexpr size_t kCallsMax = 128;
constexpr size_t kBodyMost = 512;

struct Call {
  uint16_t method = kMethodLock;
  std::vector<std::byte> body;  // Of exactly its length, so that the sanitizer sees a read behind it.
};

// The next call; the input continues behind it.
Call take_call(Bytes& input, const LockItem& first) {
  constexpr uint16_t kMethods[] = {kMethodLock,   kMethodUpdate, kMethodUnlock,
                                   kMethodAttach, 0x3ff,         kMethodUpdateHeld};
  const auto choice = std::to_integer<uint8_t>(input[0]);
  const size_t wanted = std::to_integer<size_t>(input[1]) | std::to_integer<size_t>(input[2]) << 8;
  input = input.subspan(3);
  const Bytes bytes = input.first(std::min({wanted, input.size(), kBodyMost}));
  input = input.subspan(bytes.size());
  Call call{.method = kMethods[(choice & 0x7f) % std::size(kMethods)], .body = {}};
  if ((choice & 0x80) != 0) {
    // Of an update the second half, lengths, comes from the input.
    const size_t known = call.method == kMethodUpdate || call.method == kMethodUpdateHeld
                             ? sizeof(first.object)
                             : sizeof(first);
    std::ranges::copy(std::as_bytes(std::span(&first, 1)).first(known), std::back_inserter(call.body));
  }
  call.body.insert(call.body.end(), bytes.begin(), bytes.end());
  return call;
}

bool is_of_the_contract(const Call& call, Code code) {
  if (call.method == kMethodAttach) return code == Code::kOk;
  if (call.method == 0x3ff) return code == Code::kUnsupported;
  return code == Code::kOk || code == Code::kConflict || code == Code::kMalformed ||
         code == Code::kInvalidArgument;
}

void serve(Bytes input) {
  sim::World world({.seed = 1});
  SimServer::Terms terms;
  terms.capacity = {.keys_max = 2, .key_bytes_max = 8, .value_bytes_max = 100};
  SimServer server(world, *designs::find("farm"), 0, terms);
  REFRACT_CHECK(server.server().load(bytes_of("one"), bytes_of("first")).has_value());
  REFRACT_CHECK(server.server().load(bytes_of("two"), bytes_of("second")).has_value());
  sim::Host& host = world.add_host("client");
  SimClient& process = host.emplace<SimClient>(host, make_client, size_t{1});
  REFRACT_CHECK(runtime::block_on(host.shard(), process.connected(1)) != nullptr);
  Root root{};
  std::memcpy(&root, server.memory().data(), sizeof(root));
  for (size_t calls = 0; input.size() >= 3 && calls < kCallsMax; ++calls) {
    Header now;
    std::memcpy(&now.bits, server.memory().data() + root.objects, sizeof(now.bits));
    const Call call = take_call(input, {.object = root.objects, .version = now.version()});
    const runtime::OpResult reply = process.session(0).call_and_wait(
        {.method = call.method, .tail = call.body}, world.now_ns() + kSecond_ns);
    REFRACT_CHECK(is_of_the_contract(call, reply.code));
    REFRACT_CHECK(server.server().contradiction() == std::nullopt);
  }
  REFRACT_CHECK(server.server().facts().keys == 2);
}

void look_at(Bytes input) {
  const std::vector<std::byte> bytes(input.begin(), input.end());
  for (const bool checks_lines : {true, false}) {
    const std::optional<Object> object = object_in(bytes, checks_lines);
    if (object) REFRACT_CHECK(object->key.size() + object->value.size() <= bytes.size());
  }
}

}  // namespace
}  // namespace refract::txn::farm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, bytes));
  if (input.empty()) return 0;
  if ((std::to_integer<uint8_t>(input[0]) & 1) == 0) {
    refract::txn::farm::serve(input.subspan(1));
  } else {
    refract::txn::farm::look_at(input.subspan(1));
  }
  return 0;
}
