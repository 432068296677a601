// SPDX-License-Identifier: Apache-2.0
// What it costs to put calls together and to take them apart, apart from what they ask for: nothing here
// looks at a table.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/cost/expect_cost.h"

#include "refract/kv/layout/many_wire.h"
#include "refract/kv/owner/service/keyed_call.h"
#include "refract/kv/testing/test_service.h"
#include "refract/rpc/message.h"

namespace refract::test {
namespace {

using kv::test::bytes_of;
using kv::wire::ManyBody;

constexpr size_t kKeys = kv::wire::kKeysPerCall;
const std::string kKey = "user:0000000042!";  // 16 bytes.
const std::string kValue(64, 'v');

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}
template <typename Part>
void append_part(std::vector<std::byte>& to, const Part& part) {
  append(to, std::as_bytes(std::span(&part, 1)));
}

// A put as it comes, and what an owner needs to read it.
struct ComingPut {
  kv::test::Pins pins;
  kv::test::Space space{kv::test::SpaceOptions{.pins = &pins.all}};
  uint64_t upload_bytes = 0;
  kv::Outcomes outcomes{0};
  kv::SessionState session{space.table(), pins.sessions, nullptr, upload_bytes, outcomes};
  kv::KeyArena arena{kv::kKeyBytesMax};
  kv::KeyedCall call;
  std::vector<std::byte> message;

  ComingPut() {
    const kv::wire::PutRequest request{.key = {.key_bytes = static_cast<uint16_t>(kKey.size()),
                                               .staged = 0,
                                               .flags = 0,
                                               .value_bytes = static_cast<uint32_t>(kValue.size())},
                                       .if_version = 0,
                                       .ttl_ns = 0};
    append_part(message, rpc::MessageHeader{
                             .id = 1,
                             .method = static_cast<uint16_t>(kv::wire::Method::kPut),
                             .code = 0,
                             .bytes = static_cast<uint32_t>(sizeof(request) + kKey.size() + kValue.size())});
    append_part(message, request);
    append(message, bytes_of(kKey));
    append(message, bytes_of(kValue));
  }
  [[nodiscard]] bool decode() {
    arena.clear();
    call.reset();
    const auto decoded = rpc::decode(message);
    const Code code = decoded ? kv::decode_keyed(static_cast<kv::wire::Method>(decoded->header.method),
                                                 decoded->payload, session, arena, call)
                              : Code::kMalformed;
    return code == Code::kOk && call.key.bytes.size() == kKey.size() && call.value.size() == kValue.size();
  }
};

TEST(CodecCost, a_put_is_taken_apart_as_cheaply_as_before) {
  expect_cost({"put, decoded", 190, [] {
                 const auto put = std::make_shared<ComingPut>();
                 return repeated([put] { return put->decode(); });
               }});
}

// Both directions of one call: its body, and its answer.
TEST(CodecCost, and_so_are_sixteen_gets_of_a_call) {
  expect_cost({"16 gets, encoded and decoded", 1'426, [] {
                 const auto body = std::make_shared<ManyBody>();
                 const auto answer = std::make_shared<std::vector<std::byte>>();
                 for (size_t i = 0; i < kKeys; ++i) {
                   append_part(*answer,
                               kv::wire::ManyEntry{.version = i + 1,
                                                   .expires_wall_ns = 0,
                                                   .value_bytes = static_cast<uint32_t>(kValue.size()),
                                                   .code = static_cast<uint16_t>(Code::kOk),
                                                   .reserved = 0});
                   append(*answer, bytes_of(kValue));
                 }
                 return repeated([body, answer] {
                   body->clear();
                   for (size_t i = 0; i < kKeys; ++i) body->add_get(bytes_of(kKey));
                   std::span<const std::byte> asked = body->bytes();
                   size_t right = 0;
                   for (size_t left = kv::wire::take_count(asked); left > 0; --left) {
                     const auto length = kv::wire::take<kv::wire::KeyLength>(asked);
                     if (!length || length->bytes > asked.size()) return false;
                     right += kv::wire::take_bytes(asked, length->bytes).size();
                   }
                   std::span<const std::byte> told = *answer;
                   for (size_t i = 0; i < kKeys; ++i) {
                     const auto one = kv::wire::take_many_answer(told);
                     right += one ? one->value.size() : 0;
                   }
                   return right == kKeys * (kKey.size() + kValue.size());
                 });
               }});
}

TEST(CodecCost, and_so_are_sixteen_puts_of_a_call) {
  expect_cost({"16 puts, encoded and decoded", 1'308, [] {
                 const auto body = std::make_shared<ManyBody>();
                 return repeated([body] {
                   body->clear();
                   for (size_t i = 0; i < kKeys; ++i) body->add_put(bytes_of(kKey), bytes_of(kValue), 0);
                   std::span<const std::byte> asked = body->bytes();
                   size_t right = 0;
                   for (size_t left = kv::wire::take_count(asked); left > 0; --left) {
                     const auto put = kv::wire::take<kv::wire::PutOfMany>(asked);
                     if (!put || uint64_t{put->key_bytes} + put->value_bytes > asked.size()) return false;
                     right += kv::wire::take_bytes(asked, put->key_bytes).size();
                     right += kv::wire::take_bytes(asked, put->value_bytes).size();
                   }
                   return right == kKeys * (kKey.size() + kValue.size());
                 });
               }});
}

}  // namespace
}  // namespace refract::test
