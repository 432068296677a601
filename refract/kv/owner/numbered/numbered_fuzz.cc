// SPDX-License-Identifier: Apache-2.0
// Arbitrary bodies of the calls of numbered writes, and of those that stage keys and bring drafts for them,
// by two connections that take each other's session: to a service with a table behind it. Every call is
// answered by a code of the contract, each operation of a sound one too, nothing waits for ever, and the
// table stays sound. The first byte says which table: one with room, one that is full, or one that is full
// and says that it can grow.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/check.h"
#include "refract/kv/calls/lender.h"
#include "refract/kv/layout/clear_wire.h"
#include "refract/kv/layout/pull_wire.h"
#include "refract/kv/testing/test_numbered.h"

namespace {

using refract::Code;
using namespace refract::kv;  // NOLINT(google-build-using-namespace)

enum class World : uint8_t { kRoomy, kFull, kGrowing };
constexpr size_t kWorlds = 3;

std::unique_ptr<test::Served> make(World world) {
  const bool is_full = world != World::kRoomy;
  auto served = std::make_unique<test::Served>(test::ServedOptions{
      .chunks = is_full ? 5U : 8U, .chunks_max = is_full ? 5U : 8U, .link = {.reads_bypass_cpu = true}});
  Table& table = served->space.table();
  for (const size_t bytes : {100'000U, 5'000U, 300U, 10U}) {
    for (int i = 0; is_full && i < 100'000; ++i) {
      const std::string key = "fill " + std::to_string(bytes) + " " + std::to_string(i);
      if (!table.put(test::bytes_of(key), test::bytes_of(std::string(bytes, 'f')), {})) break;
    }
  }
  served->growth.allowed = world == World::kGrowing;
  return served;
}

// What an input cannot guess stands for itself: the session's name, the handle of the latest upload, the
// moment of the latest clear, and where something is lent.
struct Known {
  wire::SessionRequest session{};
  uint64_t upload = 0;
  uint64_t clear = 0;
  refract::fabric::RemoteSpan lent{};
};

void put_lent(std::span<std::byte> body, const refract::fabric::RemoteSpan& lent) {
  wire::PutPulledRequest request{};
  if (body.size() < sizeof(request)) return;
  std::memcpy(&request, body.data(), sizeof(request));
  if (request.address_key != 1) return;
  request.address = lent.address.bits;
  request.address_key = lent.key.bits;
  std::memcpy(body.data(), &request, sizeof(request));
}

void put_known(uint16_t method, std::span<std::byte> body, const Known& known) {
  if (body.size() >= sizeof(known.session) &&
      method == static_cast<uint16_t>(wire::NumberedMethod::kSessionResume)) {
    uint64_t id = 0;
    std::memcpy(&id, body.data(), sizeof(id));
    if (id == 1) std::memcpy(body.data(), &known.session, sizeof(known.session));
  }
  if (method == static_cast<uint16_t>(wire::NumberedMethod::kPullDraft)) return put_lent(body, known.lent);
  const bool names_upload = method == static_cast<uint16_t>(wire::Method::kPutPiece);
  if (names_upload && body.size() >= sizeof(known.upload)) {
    std::memcpy(body.data(), &known.upload, sizeof(known.upload));
  }
  if (method == static_cast<uint16_t>(wire::NumberedMethod::kClear)) {
    const auto step = wire::take_clear_request(body);
    if (step && step->stamp == 1) {
      std::memcpy(body.data() + offsetof(wire::ClearRequest, stamp), &known.clear, sizeof(known.clear));
    }
  }
  if (method != static_cast<uint16_t>(wire::NumberedMethod::kOperations)) return;
  std::span<const std::byte> left = body;
  const auto request = wire::take_operations_request(left);
  if (!request) return;
  left = left.subspan(request->acknowledged * sizeof(wire::Acknowledged));
  for (size_t i = 0; i < request->operations; ++i) {
    const size_t at = body.size() - left.size();
    const auto one = wire::take_operation(left);
    if (!one) return;
    if (!one->operation.is(wire::OperationKind::kCommit) || one->operation.argument != 1) continue;
    std::memcpy(body.data() + at + offsetof(wire::Operation, argument), &known.upload, sizeof(known.upload));
  }
}

void learn(uint16_t method, const test::NumberedPeer& peer, const std::string& reply, Known& known) {
  const bool opens_upload = method == static_cast<uint16_t>(wire::Method::kPutBegin) ||
                            method == static_cast<uint16_t>(wire::NumberedMethod::kPullDraft);
  if (opens_upload && reply.size() == sizeof(known.upload)) {
    known.upload = test::reply_as<uint64_t>(reply);
  }
  if (method == static_cast<uint16_t>(wire::NumberedMethod::kClear)) {
    const auto step = wire::take_clear_reply(test::bytes_of(reply));
    REFRACT_CHECK(step.has_value());
    known.clear = step->stamp;
  }
  const bool has_session = method == static_cast<uint16_t>(wire::NumberedMethod::kSessionBegin) ||
                           method == static_cast<uint16_t>(wire::NumberedMethod::kSessionResume);
  if (!has_session) return;
  REFRACT_CHECK(reply.size() == sizeof(wire::SessionReply));
  const auto session = test::reply_as<wire::SessionReply>(reply);
  REFRACT_CHECK(session.id != 0 && session.functions == functions::version());
  known.session = {.id = session.id, .secret = session.secret};
  REFRACT_CHECK(peer.served.numbered.records().counts().sessions > 0);
}

void check_answers(std::string_view body, std::string_view reply) {
  std::span<const std::byte> left = test::bytes_of(body);
  const auto request = wire::take_operations_request(left);
  REFRACT_CHECK(request.has_value());
  std::span<const std::byte> answers = test::bytes_of(reply);
  for (size_t i = 0; i < request->operations; ++i) {
    const auto one = wire::take_operation_answer(answers);
    REFRACT_CHECK(one && one->code != Code::kCorrupt && one->code != Code::kMalformed);
    REFRACT_CHECK(one->code != Code::kOverloaded || one->answer.place == wire::kPlaceUnknown);
  }
  REFRACT_CHECK(answers.empty());
}

// The input as calls: which connection and method, two bytes of length, body.
void serve(World world, std::span<const std::byte> input) {
  const std::unique_ptr<test::Served> served = make(world);
  static const std::array<std::byte, 4'096> value{};
  Lender lender(served->counted);
  const Lender::Loan loan = lender.lend(value);
  std::array<std::optional<test::NumberedPeer>, 2> peers;
  for (auto& peer : peers) peer.emplace(*served, false);
  constexpr std::array<uint16_t, 8> kMethods = {0xd0,
                                                0xd1,
                                                0xd2,
                                                0xd2,
                                                0xd4,
                                                0xd3,
                                                static_cast<uint16_t>(wire::Method::kStageKey),
                                                static_cast<uint16_t>(wire::Method::kPutBegin)};
  Known known{.lent = loan.source()};
  while (input.size() >= 3) {
    const auto what = static_cast<size_t>(input[0]);
    std::optional<test::NumberedPeer>& peer = peers[what & 1];
    if (peer->peer.session->state() != refract::rpc::Session::State::kOpen) peer.emplace(*served, false);
    const uint16_t method =
        (what & 128) != 0 ? static_cast<uint16_t>(wire::Method::kPutPiece) : kMethods[what >> 1 & 7];
    const size_t wanted = static_cast<size_t>(input[1]) | static_cast<size_t>(input[2]) << 8;
    input = input.subspan(3);
    const size_t bytes = std::min({wanted, input.size(), peer->peer.session->payload_bytes_max()});
    std::vector<std::byte> body(input.begin(), input.begin() + static_cast<ptrdiff_t>(bytes));
    input = input.subspan(bytes);
    put_known(method, body, known);
    const uint64_t id = peer->peer.session->start({.method = method, .head = body});
    REFRACT_CHECK(id != 0);
    served->settle();
    if (!peer->peer.session->done(id)) {
      // It waits, until its connection ends, or memory comes or does not.
      REFRACT_CHECK(served->service.stat().waiting_for_memory > 0 ||
                    served->service.pulls().bytes_under_way() > 0);
      (void)peer->peer.session->finish(id);
      if ((what & 64) == 0) continue;
      served->growth.allowed = false;
      served->service.on_growth_refused();
      served->settle();
      REFRACT_CHECK(served->service.stat().waiting_for_memory == 0);
      served->growth.allowed = world == World::kGrowing;
      continue;
    }
    const refract::runtime::OpResult result = peer->peer.session->finish(id);
    const std::string reply = test::text_of(result.bytes);
    REFRACT_CHECK(result.code != Code::kCorrupt);
    if (result.code != Code::kOk) continue;
    learn(method, *peer, reply, known);
    if (method == 0xd2) check_answers(test::text_of(body), reply);
  }
  REFRACT_CHECK(served->is_sound());
  for (auto& peer : peers) peer.reset();
  REFRACT_CHECK(served->run_until([&] { return served->server.session_count() == 0; }));
  REFRACT_CHECK(served->numbered.waiting() == 0 && served->numbered.barred() == 0);
  REFRACT_CHECK(served->service.stat().uploads == 0);
  // A minute later nothing is left of them.
  (void)served->shard.run_until([] { return false; },
                                served->shard.refresh_now() + 2 * SessionRecords::kKept_ns);
  REFRACT_CHECK(served->numbered.records().counts().sessions == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  serve(static_cast<World>(data[0] % kWorlds), std::as_bytes(std::span(data, bytes)).subspan(1));
  return 0;
}
