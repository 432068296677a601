// SPDX-License-Identifier: Apache-2.0
// Identified writes are executed at most once and answered truthfully, however often they are sent and
// however often the owner dies.
//
// Method: over loopback the cases one by one. On the simulated network clients write, each key by one client
// alone, so that what became of each write can be seen from the entry, while the server crashes between any
// two of its stores and comes back; a client that gets no answer sends the same write again over its next
// session, as the client library does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/testing/test_service.h"
#include "refract/kv/testing/test_sim_service.h"

namespace refract::kv {
namespace {

using runtime::Task;
using test::bytes_of;
using test::patterned;
using test::Served;

class IdentityTest : public testing::Test {
 protected:
  [[nodiscard]] static RpcAttempt first(uint64_t sequence) {
    return {.request = {.client = 7, .sequence = sequence}};
  }
  // Sent again, by a client that does not know when it was sent first.
  [[nodiscard]] static RpcAttempt again(uint64_t sequence) {
    return {.request = {.client = 7, .sequence = sequence}, .first_sent_ns = RpcAttempt::kLongAgo_ns};
  }
  [[nodiscard]] Result<uint64_t> put(std::string_view key, std::string_view value,
                                     const RpcPutOptions& options) {
    const Result<uint64_t> version = served.wait(peer.client->put(bytes_of(key), bytes_of(value), options));
    return version;
  }
  [[nodiscard]] std::string get(std::string_view key) {
    std::string value;
    StringSink sink(value);
    EXPECT_TRUE(peer.client->get_and_wait(bytes_of(key), sink).has_value());
    return value;
  }

  Served served{{.link = {.depth = 32, .message_bytes_max = 2048, .one_sided_bytes_min = 4096}}};
  Served::Peer peer = served.connect();
};

TEST_F(IdentityTest, a_repeated_batch_is_executed_once_and_told_what_it_made) {
  std::vector<RpcBatchWrite> writes(3);
  writes[0] = {.key = bytes_of("a"), .kind = WriteKind::kPut, .value = bytes_of("1")};
  writes[1] = {.key = bytes_of("n"), .kind = WriteKind::kAdd, .addend = 2};
  writes[2] = {.key = bytes_of("b"), .kind = WriteKind::kPut, .value = bytes_of("1")};
  RpcBatch batch{.conditions = {}, .writes = writes};
  const auto change = [&](const RpcAttempt& attempt) {
    return served.wait(peer.client->change(batch, 0, attempt)).code();
  };
  ASSERT_EQ(change(first(1)), Code::kOk);
  const std::vector<RpcBatchWrite> made = writes;
  // What carries the identity is written again.
  ASSERT_TRUE(put("a", "other", {}));
  ASSERT_EQ(change(again(1)), Code::kOk);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(writes[i].version, made[i].version);
  EXPECT_EQ(writes[1].sum, 2);
  ASSERT_TRUE(put("n", "70", {}));
  ASSERT_EQ(change(again(1)), Code::kOk);
  EXPECT_EQ(writes[1].version, 0U) << "the sum is known no more";
  EXPECT_EQ(writes[2].version, made[2].version);
  EXPECT_EQ(get("a"), "other");
  EXPECT_EQ(get("n"), "70");
}

TEST_F(IdentityTest, a_repeated_batch_is_told_what_its_rows_answered) {
  const uint64_t version = refract::test::needed(put("text", "t", {}));
  ASSERT_TRUE(put("gone", "x", {}));
  const int64_t two = 2;
  const std::vector<RpcCondition> conditions{
      {.key = bytes_of("text"), .kind = ConditionKind::kVersion, .version = version}};
  std::vector<RpcBatchWrite> writes(5);
  const auto addend = std::as_bytes(std::span(&two, 1));
  const auto run = [&](std::string_view key, functions::Function function, std::span<const std::byte> bytes) {
    return RpcBatchWrite{
        .key = bytes_of(key), .kind = WriteKind::kFunction, .value = bytes, .function = function};
  };
  const auto ask = [&](uint64_t sequence, bool is_again) {
    writes[0] = run("text", functions::Function::kAdd, addend);
    writes[1] = run("n", functions::Function::kAdd, addend);
    writes[2] = {.key = bytes_of("gone"), .kind = WriteKind::kErase};
    writes[3] = {.key = bytes_of("none"), .kind = WriteKind::kErase};
    writes[4] = run("s", functions::Function::kAppend, bytes_of("tail"));
    RpcBatch batch{.conditions = conditions, .writes = writes};
    return served.wait(peer.client->change(batch, 0, is_again ? again(sequence) : first(sequence))).code();
  };
  const auto expect_told = [&] {
    EXPECT_EQ(writes[0].code, Code::kInvalidArgument);
    EXPECT_EQ(writes[0].answer_bytes, 1U);
    EXPECT_EQ(writes[1].code, Code::kOk);
    EXPECT_EQ(writes[1].answer[0], std::byte{2});
    EXPECT_EQ(writes[2].code, Code::kOk);
    EXPECT_EQ(writes[3].code, Code::kNotFound);
    EXPECT_EQ(writes[4].answer[0], std::byte{4});
  };
  ASSERT_EQ(ask(1, false), Code::kOk);
  expect_told();
  ASSERT_TRUE(put("n", "70", {}));
  ASSERT_EQ(ask(1, true), Code::kOk);
  expect_told();
  EXPECT_EQ(get("n"), "70") << "it is not executed again";
  EXPECT_EQ(get("s"), "tail");
}

// Of an earlier process: what its entries tell.
TEST_F(IdentityTest, a_repeated_batch_is_told_what_entries_of_its_rows_say) {
  ASSERT_TRUE(put("text", "t", {}));
  const int64_t two = 2;
  const auto addend = std::as_bytes(std::span(&two, 1));
  Table& table = served.space.table();
  std::vector<BatchRow> rows(3, {.function = functions::Function::kAdd});
  rows[2].function = functions::Function::kAppend;
  std::vector<BatchWrite> made{
      {.key = table.hashed(bytes_of("text")), .kind = WriteKind::kFunction, .value = addend, .row = &rows[0]},
      {.key = table.hashed(bytes_of("n")), .kind = WriteKind::kFunction, .value = addend, .row = &rows[1]},
      {.key = table.hashed(bytes_of("s")),
       .kind = WriteKind::kFunction,
       .value = bytes_of("tail"),
       .row = &rows[2]},
      {.key = table.hashed(bytes_of("none")), .kind = WriteKind::kErase}};
  TableBatch executed{.conditions = {}, .writes = made, .request = again(1).request};
  ASSERT_TRUE(table.change_at_once(executed));
  ASSERT_TRUE(put("s", "other", {}));
  std::vector<RpcBatchWrite> writes(4);
  for (size_t i = 0; i < writes.size(); ++i) {
    writes[i] = {.key = made[i].key.bytes, .kind = made[i].kind, .value = made[i].value};
    if (made[i].row != nullptr) writes[i].function = made[i].row->function;
  }
  RpcBatch batch{.conditions = {}, .writes = writes};
  ASSERT_EQ(served.wait(peer.client->change(batch, 0, again(1))).code(), Code::kOk);
  EXPECT_EQ(writes[0].code, Code::kIndeterminate) << "it made nothing";
  EXPECT_EQ(writes[1].code, Code::kOk);
  EXPECT_EQ(writes[1].answer_bytes, 8U);
  EXPECT_EQ(writes[1].answer[0], std::byte{2});
  EXPECT_EQ(writes[1].version, made[1].version);
  EXPECT_EQ(writes[2].code, Code::kIndeterminate) << "it was written again";
  EXPECT_EQ(writes[3].code, Code::kIndeterminate);
  EXPECT_EQ(get("n"), "2");
  EXPECT_EQ(get("s"), "other");
}

// A row that makes nothing leaves the version that its batch asks for.
TEST_F(IdentityTest, an_untouched_version_of_a_rows_key_shows_nothing) {
  const uint64_t version = refract::test::needed(put("text", "t", {}));
  const int64_t two = 2;
  const std::vector<RpcCondition> conditions{
      {.key = bytes_of("text"), .kind = ConditionKind::kVersion, .version = version}};
  // A put changes its key, and is a proof.
  for (const WriteKind kind : {WriteKind::kFunction, WriteKind::kPut}) {
    std::vector<RpcBatchWrite> writes{{.key = bytes_of("text"), .kind = kind}, {.key = bytes_of("n")}};
    if (kind == WriteKind::kFunction) {
      writes[0].function = functions::Function::kAdd;
      writes[0].value = std::as_bytes(std::span(&two, 1));
    }
    RpcBatch batch{.conditions = conditions, .writes = writes};
    const bool is_shown = kind == WriteKind::kPut;
    EXPECT_EQ(served.wait(peer.client->change(batch, 0, again(static_cast<uint64_t>(kind)))).code(),
              is_shown ? Code::kOk : Code::kIndeterminate);
    EXPECT_EQ(served.space.table().find(bytes_of("n")).has_value(), is_shown);
  }
}

TEST_F(IdentityTest, a_repeated_write_gets_the_first_ones_outcome) {
  // Small, in pieces, through a window.
  for (const size_t bytes : {size_t{10}, size_t{3'000}, size_t{10'000}}) {
    const uint64_t base = bytes * 10;
    const std::string key = "key" + std::to_string(bytes);
    const std::string value = patterned(bytes);
    const Result<uint64_t> made = put(key, value, {.if_absent = true, .attempt = first(base + 1)});
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(put(key, value, {.if_absent = true, .attempt = again(base + 1)}), *made);
    EXPECT_EQ(put(key, value, {.if_absent = true, .attempt = first(base + 1)}), *made)
        << "also if the first attempt comes behind its repetition";
    const Result<uint64_t> next = put(key, "next", {.if_version = *made, .attempt = first(base + 2)});
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(put(key, "next", {.if_version = *made, .attempt = again(base + 2)}), *next);
    EXPECT_EQ(put(key, value, {.if_absent = true, .attempt = again(base + 1)}), *made);
    EXPECT_EQ(get(key), "next") << "nothing was executed twice";
    EXPECT_EQ(peer.client->erase_and_wait(bytes_of(key), 0, 0, first(base + 3)), *next);
    EXPECT_EQ(peer.client->erase_and_wait(bytes_of(key), 0, 0, again(base + 3)), *next);
    EXPECT_EQ(put(key, "next", {.if_version = *made, .attempt = again(base + 2)}), *next);
    EXPECT_EQ(served.space.table().stats().entries, 0u);
  }
  EXPECT_EQ(served.service.stat().uploads, 0u);
  EXPECT_EQ(served.windows.open_count(), 0u);
  EXPECT_TRUE(served.is_sound());
}

TEST_F(IdentityTest, a_refusal_is_an_outcome_too) {
  const uint64_t there = refract::test::needed(put("key", "other", {}));
  for (const size_t bytes : {size_t{10}, size_t{10'000}}) {
    const std::string value = patterned(bytes);
    EXPECT_EQ(put("key", value, {.if_absent = true, .attempt = first(bytes)}).code(), Code::kExists);
    EXPECT_EQ(put("key", value, {.if_version = there + 1000, .attempt = first(bytes + 1)}).code(),
              Code::kVersionMismatch);
    EXPECT_EQ(peer.client->erase_and_wait(bytes_of("none"), 0, 0, first(bytes + 2)).code(), Code::kNotFound);
  }
  EXPECT_EQ(peer.client->erase_and_wait(bytes_of("key"), there), there);
  (void)put("none", "there now", {});
  for (const size_t bytes : {size_t{10}, size_t{10'000}}) {
    const std::string value = patterned(bytes);
    EXPECT_EQ(put("key", value, {.if_absent = true, .attempt = again(bytes)}).code(), Code::kExists)
        << "it would succeed now, but was answered before";
    EXPECT_EQ(put("key", value, {.if_version = there + 1000, .attempt = again(bytes + 1)}).code(),
              Code::kVersionMismatch);
    EXPECT_EQ(peer.client->erase_and_wait(bytes_of("none"), 0, 0, again(bytes + 2)).code(), Code::kNotFound);
  }
}

TEST_F(IdentityTest, what_nobody_can_know_any_more_is_indeterminate_and_not_executed) {
  EXPECT_EQ(put("key", "value", {.if_absent = true, .attempt = again(1)}).code(), Code::kIndeterminate);
  EXPECT_EQ(put("key", patterned(10'000), {.if_absent = true, .attempt = again(2)}).code(),
            Code::kIndeterminate);
  EXPECT_EQ(peer.client->put_and_wait(bytes_of("key"), bytes_of("value"), {.attempt = again(3)}).code(),
            Code::kIndeterminate);
  EXPECT_EQ(peer.client->erase_and_wait(bytes_of("key"), 0, 0, again(4)).code(), Code::kIndeterminate);
  EXPECT_EQ(served.space.table().stats().entries, 0u);
}

TEST_F(IdentityTest, a_write_first_sent_in_the_owners_life_is_known_not_to_have_been_executed) {
  served.space.clock().advance_ns(kSecond_ns);
  peer = served.connect();
  const uint64_t recently_ns = served.shard.refresh_now() - kSecond_ns / 2;
  const RpcAttempt lost{.request = {.client = 7, .sequence = 1}, .first_sent_ns = recently_ns};
  EXPECT_TRUE(put("key", "value", {.if_absent = true, .attempt = lost}).has_value());
  const RpcAttempt older{.request = {.client = 7, .sequence = 2},
                         .first_sent_ns = recently_ns - kSecond_ns / 2 + 1};
  EXPECT_EQ(put("other", "value", {.if_absent = true, .attempt = older}).code(), Code::kIndeterminate)
      << "it may have been sent a little before the owner began";
}

TEST_F(IdentityTest, an_untouched_version_shows_that_a_write_was_not_executed) {
  const uint64_t version = refract::test::needed(put("key", "value", {}));
  const Result<uint64_t> next = put("key", "next", {.if_version = version, .attempt = again(1)});
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(peer.client->erase_and_wait(bytes_of("key"), *next, 0, again(2)), *next);
}

TEST_F(IdentityTest, identities_with_long_keys_and_without_a_value_are_fine) {
  const std::string key = patterned(5'000);
  const Result<uint64_t> made = put(key, "", {.if_absent = true, .attempt = first(1)});
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(put(key, "", {.if_absent = true, .attempt = again(1)}), *made);
  EXPECT_EQ(get(key), "");
  EXPECT_EQ(peer.client->erase_and_wait(bytes_of(key), *made, 0, first(2)), *made);
  EXPECT_EQ(peer.client->erase_and_wait(bytes_of(key), *made, 0, again(2)), *made);
}

// A call by hand of a write with the identity {7, `sequence`}, sent for the first time.
std::string identified_put(uint64_t sequence, std::string_view key, uint32_t value_bytes) {
  wire::PutRequest request = test::put_request(key.size(), value_bytes);
  request.key.flags = wire::KeyRef::kIfAbsent | wire::KeyRef::kIdentified;
  const wire::Identity identity{.client = 7, .sequence = sequence, .repeats_ns = 0};
  return test::body_of(request, test::body_of(identity, key));
}

// A large put is looked at when it begins, and takes effect when it is committed. Meanwhile the same write is
// executed over another session, its entry goes, and so much is written that its outcome is forgotten.
TEST_F(IdentityTest, an_upload_is_not_committed_behind_its_own_repetition) {
  const std::string value = patterned(1'500);
  Served::Peer older = served.connect();
  std::string reply;
  const std::string begin = identified_put(1, "key", 1'500);
  ASSERT_EQ(served.call(older, wire::Method::kPutBegin, bytes_of(begin), &reply), Code::kOk);
  const wire::Handle upload = test::reply_as<wire::Handle>(reply);
  const std::string piece = test::body_of(wire::PutPieceRequest{.upload = upload.id, .offset = 0}, value);
  ASSERT_EQ(served.call(older, wire::Method::kPutPiece, bytes_of(piece)), Code::kOk);

  const Result<uint64_t> made = put("key", value, {.if_absent = true, .attempt = first(1)});
  ASSERT_TRUE(made.has_value());
  ASSERT_EQ(peer.client->erase_and_wait(bytes_of("key"), 0), *made);
  for (uint64_t sequence = 2; sequence < 600; ++sequence) {
    ASSERT_TRUE(put("other", "value", {.attempt = first(sequence)}).has_value());
  }
  const std::string commit = test::body_of(upload);
  ASSERT_EQ(served.call(older, wire::Method::kPutCommit, bytes_of(commit), &reply), Code::kOk);
  EXPECT_EQ(test::reply_as<wire::VersionReply>(reply).version, *made);
  EXPECT_FALSE(served.space.table().find(bytes_of("key")).has_value()) << "it was executed twice";
  EXPECT_EQ(served.service.stat().uploads, 0u);
}

// A first attempt that lay in an older session all the time.
TEST_F(IdentityTest, a_first_attempt_is_not_executed_behind_a_repetition_that_is_forgotten) {
  Served::Peer older = served.connect();
  served.space.clock().advance_ns(kSecond_ns);
  peer = served.connect();
  const Result<uint64_t> made = put("key", "value", {.if_absent = true, .attempt = first(1)});
  ASSERT_TRUE(made.has_value());
  ASSERT_EQ(peer.client->erase_and_wait(bytes_of("key"), 0), *made);
  for (uint64_t sequence = 2; sequence < 600; ++sequence) {
    ASSERT_TRUE(put("other", "value", {.attempt = first(sequence)}).has_value());
  }
  const std::string late = identified_put(1, "key", 5);
  EXPECT_EQ(served.call(older, wire::Method::kPut, bytes_of(late + "value")), Code::kIndeterminate);
  EXPECT_FALSE(served.space.table().find(bytes_of("key")).has_value()) << "it was executed twice";
  // Those that are not behind anything are executed over any session.
  const std::string next = identified_put(1'000, "key", 5);
  EXPECT_EQ(served.call(older, wire::Method::kPut, bytes_of(next + "value")), Code::kOk);
}

// What the clients of a world report.
struct Tally {
  uint64_t written = 0;
  uint64_t erased = 0;
  uint64_t repeated = 0;
  uint64_t indeterminate = 0;
  uint64_t wrong = 0;
  std::string what;
};

// Sends one write until its outcome is known.
template <typename Send>
Task<Result<uint64_t>> send_until_known(sim::Host& host, test::SimClient& connection, RpcAttempt attempt,
                                        Send send, Tally& tally) {
  for (int tries = 0;; ++tries) {
    RpcClient* client = co_await connection.connected();
    const uint64_t now_ns = host.shard().refresh_now();
    const Result<uint64_t> result = co_await send(*client, attempt);
    const bool is_lost = result.code() == Code::kIndeterminate || result.code() == Code::kUnavailable ||
                         result.code() == Code::kDeadlineExceeded;
    if (!is_lost || tries == 5) co_return result;
    ++tally.repeated;
    if (attempt.first_sent_ns == 0) attempt.first_sent_ns = now_ns;
  }
}

class Worker {
 public:
  Worker(sim::Host& host, uint64_t number, Tally& tally)
      : host_(host), connection_(host, {.timeout_ns = 3 * kMillisecond_ns}), number_(number), tally_(tally) {}

  // Puts, replaces and erases keys that are its own, one after the other.
  Task<> work(uint64_t rounds, bool& done) {
    for (uint64_t round = 0; round < rounds; ++round) {
      const std::string key = "key" + std::to_string(number_) + "." + std::to_string(round);
      const std::string value = patterned(round % 3 == 0 ? 40'000 : 20, round);
      const Result<uint64_t> made = co_await put(key, value, 0);
      if (is_unknown("put", made)) continue;
      const Result<uint64_t> next = co_await put(key, "next", *made);
      if (is_unknown("replace", next)) continue;
      if (*next <= *made) fault("a version that is not newer");
      const Result<uint64_t> gone = co_await erase(key, *next);
      if (is_unknown("erase", gone)) continue;
      if (*gone != *next) fault("another version was erased");
      ++tally_.erased;
    }
    done = true;
  }

 private:
  struct SendPut {
    const std::string& key;
    const std::string& value;
    uint64_t if_version;
    Task<Result<uint64_t>> operator()(RpcClient& client, const RpcAttempt& attempt) const {
      return client.put(bytes_of(key), bytes_of(value),
                        {.if_absent = if_version == 0, .if_version = if_version, .attempt = attempt});
    }
  };
  struct SendErase {
    const std::string& key;
    uint64_t if_version;
    Task<Result<uint64_t>> operator()(RpcClient& client, const RpcAttempt& attempt) const {
      return client.erase(bytes_of(key), if_version, 0, attempt);
    }
  };
  Task<Result<uint64_t>> put(std::string key, std::string value, uint64_t if_version) {
    const Result<uint64_t> version =
        co_await send_until_known(host_, connection_, next(), SendPut{key, value, if_version}, tally_);
    tally_.written += version ? 1 : 0;
    co_return version;
  }
  Task<Result<uint64_t>> erase(std::string key, uint64_t if_version) {
    const Result<uint64_t> version =
        co_await send_until_known(host_, connection_, next(), SendErase{key, if_version}, tally_);
    co_return version;
  }
  RpcAttempt next() { return {.request = {.client = 100 + number_, .sequence = ++sequence_}}; }
  // No other client writes the key: a condition can only fail because of the write itself, executed before.
  bool is_unknown(const std::string& what, const Result<uint64_t>& result) {
    if (result) return false;
    if (result.code() == Code::kIndeterminate) {
      ++tally_.indeterminate;
    } else {
      fault(what + ": " + std::string(text(result.code())));
    }
    return true;
  }
  void fault(const std::string& what) {
    ++tally_.wrong;
    tally_.what += what + "; ";
  }

  sim::Host& host_;
  test::SimClient connection_;
  uint64_t number_;
  Tally& tally_;
  uint64_t sequence_ = 0;
};

TEST(Identity, writes_of_clients_that_repeat_them_are_never_refused_because_of_themselves) {
  Tally tally;
  uint64_t crashes = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    sim::WorldOptions options{.seed = seed, .one_sided_bytes_min = 16 * 1024, .fault_chance = 0.03};
    options.link.break_ns = kMillisecond_ns;
    sim::World world(options);
    test::SimNode node(world, 24, seed);
    node.host.allow_faults(true);
    constexpr uint64_t kWorkers = 3;
    std::vector<std::unique_ptr<Worker>> workers;
    std::array<bool, kWorkers> done{};
    for (uint64_t i = 0; i < kWorkers; ++i) {
      sim::Host& host = world.add_host("client" + std::to_string(i));
      workers.push_back(std::make_unique<Worker>(host, i, tally));
      world.spawn(host, workers.back()->work(12, done[i]));
    }
    for (int turn = 0; turn < 2'000 && std::ranges::count(done, true) < 3; ++turn) {
      ASSERT_TRUE(world.run_for(200 * kMicrosecond_ns));
      if (node.host.alive() && world.prng().chance(0.1)) world.crash(node.host);
      if (!node.host.alive()) world.restart(node.host);
    }
    EXPECT_EQ(std::ranges::count(done, true), 3) << "seed " << seed;
    EXPECT_EQ(tally.wrong, 0u) << "seed " << seed << ": " << tally.what;
    EXPECT_FALSE(node.process->table.validate().has_value()) << "seed " << seed;
    crashes += node.host.crash_count();
  }
  EXPECT_GT(crashes, 100u);
  EXPECT_GT(tally.repeated, 100u);
  EXPECT_GT(tally.erased, 500u);
  EXPECT_GT(tally.indeterminate, 0u) << "an erase before a crash leaves nothing that could tell";
  EXPECT_LT(tally.indeterminate, tally.written / 10);
}

}  // namespace
}  // namespace refract::kv
