// SPDX-License-Identifier: Apache-2.0
// The decoders of introductions, of what librdmacm hands over, and of answers about regions, on arbitrary
// bytes: what comes out is sound.
#include <algorithm>
#include <span>

#include "refract/base/check.h"
#include "refract/fabric/verbs/remote_regions.h"
#include "refract/fabric/verbs/wire.h"

using namespace refract::fabric::verbs;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto message = std::as_bytes(std::span(data, bytes));
  (void)kind_of(message);
  if (const auto introduction = decode_introduction(message)) {
    REFRACT_CHECK(introduction->queue_pair < (1U << 24) && introduction->packet_sequence < (1U << 24));
    REFRACT_CHECK(introduction->mtu_bytes >= 256 && introduction->mtu_bytes <= 4096);
    REFRACT_CHECK(introduction->credits > 0);
    REFRACT_CHECK(introduction->way == Way::kExchange || introduction->way == Way::kRdmaCm);
    REFRACT_CHECK(introduction->port <= UINT16_MAX);
    REFRACT_CHECK((introduction->token == 0) == (introduction->port == 0));
  }
  if (const auto question = decode_question(message)) REFRACT_CHECK(question->region <= UINT16_MAX);
  if (const auto broken = decode_broken(message)) REFRACT_CHECK(broken->queue_pair < (1U << 24));
  if (const auto token = decode_token(message)) REFRACT_CHECK(token->token != 0);
  if (is_greeting(message, 256)) REFRACT_CHECK(bytes == 256);
  if (const auto revoked = decode_revoked(message)) REFRACT_CHECK(revoked->region <= UINT16_MAX);
  if (const auto refusal = decode_refusal(message)) {
    REFRACT_CHECK(refusal->code != refract::Code::kOk);
    for (const char each : refusal->what) REFRACT_CHECK(static_cast<unsigned char>(each) >= 0x20);
  }
  const auto answer = decode_answer(message);
  if (!answer || answer->what.chunk_count == 0) return 0;
  RemoteRegions regions;
  regions.learn(*answer);
  const RemoteRegions::Row* const row = regions.find(answer->region, answer->what.key);
  REFRACT_CHECK(row != nullptr);
  // The last byte has a device key, and nothing behind it is covered.
  REFRACT_CHECK((row->what.bytes - 1) / row->what.chunk_bytes < row->device_keys.size());
  REFRACT_CHECK(!row->covers(row->what.bytes, 1, &refract::Rights::read));
  return 0;
}
