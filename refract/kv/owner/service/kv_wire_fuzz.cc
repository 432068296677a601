// SPDX-License-Identifier: Apache-2.0
// Arbitrary bodies: to a service with a table behind it, and to the decoders of a client. Every call is
// answered by a code of the contract, and the table stays sound. The first byte says which table: one with
// room, one that is full and says so, one that evicts, one with a crowded bucket; or one of a node that has
// others beside it, whose answers are made up.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/testing/keys_of_hash.h"
#include "refract/kv/calls/batch_body.h"
#include "refract/kv/calls/rpc_client_parts.h"
#include "refract/kv/owner/transactions/other_nodes.h"
#include "refract/kv/testing/test_service.h"

namespace {

using refract::Code;
using namespace refract::kv;  // NOLINT(google-build-using-namespace)

// The handle in an answer, or `otherwise`.
uint64_t handle_in(wire::Method method, std::string_view reply, uint64_t otherwise) {
  std::span<const std::byte> bytes = test::bytes_of(reply);
  if (method == wire::Method::kPutBegin)
    return wire::take<wire::Handle>(bytes).value_or(wire::Handle{otherwise}).id;
  if (method != wire::Method::kGet) return otherwise;
  const auto got = wire::take<wire::GetReply>(bytes);
  return got && got->view != 0 ? got->view : otherwise;
}

// What transactions may be called from now on; or, as before.
wire::NameRequest name_in(wire::Method method, Code code, std::string_view reply,
                          wire::NameRequest otherwise) {
  std::span<const std::byte> bytes = test::bytes_of(reply);
  if (static_cast<uint16_t>(method) != wire::kTransactionMethodsBegin || code != Code::kOk) return otherwise;
  const auto head = wire::take<wire::WordsReply>(bytes);
  const auto word = wire::take<wire::GivenWord>(bytes);
  return head && word ? wire::NameRequest{.place = word->place, .number = word->first} : otherwise;
}

// In place of a name that begins with 1: names that a call has given cannot be guessed.
void put_name(wire::Method method, std::span<std::byte> body, wire::NameRequest name) {
  if (static_cast<uint16_t>(method) <= wire::kTransactionMethodsBegin) return;
  size_t at = 0;
  switch (static_cast<wire::TransactionMethod>(method)) {
    case wire::TransactionMethod::kDecideFar:
      at = offsetof(wire::FarDecideRequest, part);
      break;
    case wire::TransactionMethod::kFates:
    case wire::TransactionMethod::kGone:
      at = sizeof(wire::FatesRequest);
      name.place = DecisionPlace{name.place}.seen_from_afar(1).bits;
      break;
    default:
      break;
  }
  if (body.size() < at + sizeof(name)) return;
  uint64_t place = 0;
  std::memcpy(&place, body.data() + at, sizeof(place));
  if (place == 1) std::memcpy(body.data() + at, &name, sizeof(name));
}

// Of a write that says it was sent before under an identity the owner may have forgotten, and of some others.
bool may_be_unknowable(wire::Method method, std::span<const std::byte> body) {
  if (method == wire::Method::kPutCommit) return true;
  // An operation may wait for an acknowledgement that does not come.
  if (static_cast<uint16_t>(method) == static_cast<uint16_t>(wire::NumberedMethod::kOperations)) return true;
  const bool writes =
      method == wire::Method::kPut || method == wire::Method::kErase || method == wire::Method::kPutBegin;
  const auto key = wire::take<wire::KeyRef>(body);
  return writes && key && (key->flags & wire::KeyRef::kIdentified) != 0;
}

enum class World : uint8_t { kRoomy, kFull, kEvicting, kCrowded, kSpread };
constexpr size_t kWorlds = 5;
constexpr uint64_t kCrowd = 100;

// Fills the memory with values of some lengths until one finds no room, or until others had to go for it.
void fill(Table& table) {
  for (const size_t bytes : {100'000U, 5'000U, 300U, 10U}) {
    for (int i = 0; i < 100'000; ++i) {
      const std::string key = "fill " + std::to_string(bytes) + " " + std::to_string(i);
      const auto put = table.put(test::bytes_of(key), test::bytes_of(std::string(bytes, 'f')), {});
      if (!put || table.stats().evicted > 0) break;
    }
  }
}

// What became of a transaction follows from its number.
class MadeUpNodes final : public OtherNodes {
 public:
  [[nodiscard]] uint32_t self() const noexcept override { return 1; }
  [[nodiscard]] uint32_t members() const noexcept override { return 3; }
  [[nodiscard]] uint64_t placement_of(uint32_t member) const noexcept override { return 100 + member; }
  [[nodiscard]] refract::runtime::Task<refract::Result<std::vector<std::byte>>> ask(
      wire::FarPlace place, wire::TransactionMethod method, std::span<const std::byte> body,
      uint64_t /*deadline_ns*/) override {
    const auto head = *wire::take<wire::FatesRequest>(body);
    std::vector<std::byte> answer;
    for (uint32_t i = 0; i < head.names; ++i) {
      const auto name = *wire::take<wire::NameRequest>(body);
      const bool is_about_fate = method == wire::TransactionMethod::kFates;
      answer.push_back(is_about_fate ? std::byte(name.number % 5) : std::byte(name.number % 2));
    }
    if (place.member == 0 && head.names % 2 == 0) answer.pop_back();
    co_return answer;
  }
  [[nodiscard]] refract::runtime::Task<std::optional<uint32_t>> shards_of(uint32_t /*member*/,
                                                                          uint64_t /*deadline_ns*/) override {
    co_return 2;
  }
};

struct Prepared {
  MadeUpNodes nodes;
  std::unique_ptr<test::Served> served;
  uint64_t entries = 0;
};

// A service with something to find, once small and once through a view; and what the world is named after.
void prepare(World world, Prepared& made) {
  const bool evicts = world == World::kEvicting;
  made.served = std::make_unique<test::Served>(
      test::ServedOptions{.chunks = world == World::kFull ? 5U : 8U,
                          .chunks_max = world == World::kFull ? 5U : 8U,
                          .eviction = evicts ? EvictionPolicy::kLeastRecentlyUsed : EvictionPolicy::kNone,
                          .nodes = world == World::kSpread ? &made.nodes : nullptr,
                          .generation = 9});
  Table& table = made.served->space.table();
  const auto put = [&](std::string_view key, std::string_view value) {
    return table.put(test::bytes_of(key), test::bytes_of(value), {}).code();
  };
  REFRACT_CHECK(put("key", "value") == Code::kOk);
  REFRACT_CHECK(put("big", test::patterned(5000)) == Code::kOk);
  if (world == World::kFull || evicts) fill(table);
  REFRACT_CHECK(world != World::kFull || put("new", test::patterned(5000)) == Code::kNoSpace);
  REFRACT_CHECK(!evicts || table.stats().evicted > 0);
  const refract::test::KeysOfHash keys(made.served->space.writer().view<refract::SpaceHeader>({0}).hash_seed);
  for (uint64_t i = 0; i < kCrowd && world == World::kCrowded; ++i) {
    REFRACT_CHECK(put(keys.of_bucket(i, 5, 24), "crowded") == Code::kOk);
  }
  REFRACT_CHECK(world != World::kCrowded || table.crowds()->count() == 1);
  made.entries = table.stats().entries;
}

// The input as calls: method, two bytes of length, body. A body that begins with the number 1 gets the latest
// handle in its place where the method needs one: handles cannot be guessed.
void serve(World world, std::span<const std::byte> input) {
  // Made again where an input left something behind, so that each finds the same.
  static std::array<Prepared, kWorlds> kept;
  Prepared& prepared = kept[static_cast<size_t>(world)];
  if (prepared.served == nullptr || prepared.served->space.table().stats().entries != prepared.entries ||
      prepared.served->parts.has_far()) {
    prepared.served.reset();
    prepare(world, prepared);
  }
  test::Served& served = *prepared.served;
  test::Served::Peer peer = served.connect();
  if (world == World::kRoomy) {
    REFRACT_CHECK(peer.client->put_and_wait(test::bytes_of("key"), test::bytes_of("value")).has_value());
    REFRACT_CHECK(
        peer.client->put_and_wait(test::bytes_of("big"), test::bytes_of(test::patterned(5000))).has_value());
  }
  uint64_t latest = 0;
  wire::NameRequest name{};
  while (input.size() >= 3) {
    const auto method = static_cast<wire::Method>(input[0]);
    const size_t wanted = static_cast<size_t>(input[1]) | static_cast<size_t>(input[2]) << 8;
    input = input.subspan(3);
    const size_t bytes = std::min({wanted, input.size(), peer.session->payload_bytes_max()});
    std::vector<std::byte> body(input.begin(), input.begin() + static_cast<ptrdiff_t>(bytes));
    std::span<const std::byte> rest = body;
    const auto first = wire::take<wire::Handle>(rest);
    if (method >= wire::Method::kPutPiece && method <= wire::Method::kViewClose && first && first->id == 1) {
      std::memcpy(body.data(), &latest, sizeof(latest));
    }
    put_name(method, body, name);
    std::string reply;
    const Code code = served.call(peer, method, body, &reply);
    name = name_in(method, code, reply, name);
    REFRACT_CHECK(code != Code::kUnavailable && code != Code::kCorrupt);
    REFRACT_CHECK(code != Code::kIndeterminate || may_be_unknowable(method, body));
    if (code == Code::kOk) latest = handle_in(method, reply, latest);
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

// To a batch with a write of each form.
void answer_to_batch(std::span<const std::byte> input) {
  std::array<RpcBatchWrite, 5> writes{{{.key = test::bytes_of("put")},
                                       {.key = test::bytes_of("erase"), .kind = WriteKind::kErase},
                                       {.key = test::bytes_of("add"), .kind = WriteKind::kAdd},
                                       {.key = test::bytes_of("run"), .kind = WriteKind::kFunction},
                                       {.key = test::bytes_of("row"), .if_absent = true}}};
  RpcBatch batch{.conditions = {}, .writes = writes};
  const BatchAnswer told = take_batch_reply(batch, input);
  REFRACT_CHECK(batch.failed <= writes.size());
  if (told.code != Code::kOk || told.view != 0) return;
  REFRACT_CHECK(told.here.size() == told.bytes);
  take_written(batch, told.here);
  for (const RpcBatchWrite& one : writes) REFRACT_CHECK(one.answer_bytes <= one.answer.size());
}

void answer(std::span<const std::byte> input) {
  answer_to_batch(input);
  BoundedSink sink;
  GetAnswer got;
  if (take_get_answer(input, (input.size() & 1) != 0, sink, got) == Code::kOk)
    REFRACT_CHECK(got.taken_bytes <= got.target.size());
  std::span<const std::byte> many = input;
  for (size_t i = 0; i < wire::kKeysPerCall; ++i) {
    const auto one = wire::take_many_answer(many);
    if (!one) break;
    Got whole;
    if (one->code == Code::kOk && give(*one, sink, whole) == Code::kOk)
      REFRACT_CHECK(one->value.size() == one->entry.value_bytes && whole.version == one->entry.version);
  }
  for (many = input; wire::take_many_version(many);) continue;
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
    serve((data[0] & 8) != 0 ? World::kSpread : static_cast<World>(data[0] >> 1 & 3), input);
  }
  return 0;
}
