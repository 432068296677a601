// SPDX-License-Identifier: Apache-2.0
// Arbitrary bodies: to a service with a table behind it, and to the decoders of a client. Every call is
// answered by a code of the contract, and the table stays sound.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "refract/base/check.h"
#include "refract/kv/rpc_client_parts.h"
#include "refract/kv/test_service.h"

namespace {

using refract::Code;
using namespace refract::kv;  // NOLINT(google-build-using-namespace)

// The input as calls: method, two bytes of length, body.
void serve(std::span<const std::byte> input) {
  test::Served served({.chunks = 8, .chunks_max = 8});
  test::Served::Peer peer = served.connect();
  // Something to find, once small and once through a view.
  REFRACT_CHECK(peer.client->put_and_wait(test::bytes_of("key"), test::bytes_of("value")).has_value());
  REFRACT_CHECK(
      peer.client->put_and_wait(test::bytes_of("big"), test::bytes_of(test::patterned(5000))).has_value());
  while (input.size() >= 3) {
    const auto method = static_cast<wire::Method>(input[0]);
    const size_t wanted = static_cast<size_t>(input[1]) | static_cast<size_t>(input[2]) << 8;
    input = input.subspan(3);
    const size_t bytes = std::min({wanted, input.size(), peer.session->payload_bytes_max()});
    const Code code = served.call(peer, method, input.first(bytes));
    REFRACT_CHECK(code != Code::kIndeterminate && code != Code::kUnavailable && code != Code::kCorrupt);
    input = input.subspan(bytes);
  }
  REFRACT_CHECK(served.is_sound());
  peer = {};
  REFRACT_CHECK(served.run_until([&] { return served.server.session_count() == 0; }));
  REFRACT_CHECK(served.pins.sessions.count() == 0);
}

class BoundedSink final : public ValueSink {
 public:
  std::byte* room(uint64_t bytes) override {
    if (bytes > 4096) return nullptr;
    value_.resize(bytes + 1);
    return value_.data();
  }

 private:
  std::vector<std::byte> value_;
};

void answer(std::span<const std::byte> input) {
  BoundedSink sink;
  GetAnswer got;
  if (take_get_answer(input, sink, got) == Code::kOk) REFRACT_CHECK(got.taken_bytes <= got.target.size());
  if (const auto scan = wire::take<wire::ScanReply>(input)) {
    std::vector<RpcClient::ScannedKey> keys;
    if (is_sound(*scan, input.size()) && parse_page(input, scan->keys, keys)) {
      REFRACT_CHECK(keys.size() == scan->keys);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  const auto input = std::as_bytes(std::span(data, bytes)).subspan(1);
  if ((data[0] & 1) != 0) {
    answer(input);
  } else {
    serve(input);
  }
  return 0;
}
