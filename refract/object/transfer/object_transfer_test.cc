// SPDX-License-Identifier: Apache-2.0
// The puller's end beside a holder that lies, forgets, stalls or ends: a node of three whose member "b" says
// what a test says.
#include "refract/object/transfer/object_transfer.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/hash.h"
#include "refract/object/testing/test_directory.h"

namespace refract::object::object_transfer_test {
namespace {

using test::body_of;
using test::ToldNode;
using wire::TransferBy;
using wire::TransferMethod;

constexpr uint64_t kBirth = 7;

class ObjectTransferTest : public testing::Test {
 protected:
  ObjectTransferTest() {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 % 251);
    node.says = [this](uint16_t method, std::string_view body) { return say(method, body); };
    node.reach();
    node.settle();
    caller = node.connect();
    const test::Answer hello = node.call(caller, wire::DirectoryMethod::kHello, test::hello_body(node, "b"));
    const uint64_t stream = hello.as<wire::HelloReply>().stream;
    const std::string holds = test::change_body(wire::ChangeKind::kHolds, id, kBirth, bytes.size());
    EXPECT_EQ(node.call(caller, wire::DirectoryMethod::kChanges,
                        test::changes_body({.stream = stream, .is_report = true, .is_last = true}, {holds}))
                  .code,
              Code::kOk);
    client = node.connect();
  }
  // As a member that agrees, has what it said, and answers transfers as the test has it.
  ToldNode::Said say(uint16_t method, std::string_view body) {
    if (method == static_cast<uint16_t>(wire::DirectoryMethod::kHello)) {
      return {Code::kOk,
              body_of(
                  wire::HelloReply{
                      .list_version = node.list.version, .stream = 1, .name_bytes = 1, .reserved = {}},
                  "b")};
    }
    if (method == static_cast<uint16_t>(wire::DirectoryMethod::kChanges)) {
      wire::ChangesRequest page{};
      std::memcpy(&page, body.data(), sizeof(page));
      return {Code::kOk, std::string(size_t{2} * page.count, '\0')};
    }
    if (method < wire::kTransferMethodsBegin) return {Code::kUnavailable, ""};
    const auto one = static_cast<TransferMethod>(method);
    asked.push_back(one);
    if (one == TransferMethod::kTransfer) {
      std::memcpy(&request, body.data(), sizeof(request));
      ++transfers;
      return on_transfer(request);
    }
    if (one == TransferMethod::kDone) return {Code::kOk, ""};
    wire::DataRequest wanted{};
    std::memcpy(&wanted, body.data(), sizeof(wanted));
    return one == TransferMethod::kDigest ? on_digest(wanted) : on_data(wanted);
  }
  // An honest holder's.
  [[nodiscard]] ToldNode::Said by_messages(const wire::TransferRequest& of) const {
    const bool is_all = of.bytes == bytes.size();
    const std::string first = bytes.substr(of.offset, of.bytes);
    return {Code::kOk, body_of(wire::TransferReply{.transfer = is_all ? uint64_t{0} : 5,
                                                   .digest = hash_key(test::as_bytes(first), 0),
                                                   .pieces = 0,
                                                   .reserved = 0},
                               first)};
  }
  [[nodiscard]] ToldNode::Said by_reads(const std::vector<wire::TransferPiece>& pieces) const {
    std::string all = body_of(wire::TransferReply{
        .transfer = 5, .digest = 0, .pieces = static_cast<uint32_t>(pieces.size()), .reserved = 0});
    for (const wire::TransferPiece& piece : pieces) all += body_of(piece);
    return {Code::kOk, all};
  }
  // What the member "b" serves.
  [[nodiscard]] wire::TransferPiece window(uint16_t region, std::string& memory, uint64_t offset = 0) {
    const Reported<RemoteKey> key =
        node.other_domain.register_region({.region = region,
                                           .base = reinterpret_cast<std::byte*>(memory.data()),
                                           .bytes = memory.size(),
                                           .rights = {.read = true}});
    REFRACT_CHECK(key.has_value());
    return {.address = RemotePointer::at(region, 0).bits,
            .key = key->bits,
            .offset = offset,
            .bytes = memory.size()};
  }
  [[nodiscard]] uint64_t start_get(uint64_t timeout_ns = 0, uint8_t flags = 0) {
    const std::string body = test::await_body(id, timeout_ns, TransferWish::kAuto, flags);
    const uint64_t call =
        client->start({.method = static_cast<uint16_t>(wire::Method::kAwait), .head = test::as_bytes(body)});
    REFRACT_CHECK(call != 0);
    return call;
  }
  // The code of a get.
  [[nodiscard]] Code get(uint8_t flags = 0) {
    const uint64_t call = start_get(0, flags);
    REFRACT_CHECK(node.run_until([&] { return client->done(call); }));
    return client->finish(call).code;
  }
  // What this node has of it now; empty: nothing.
  [[nodiscard]] std::string here() {
    const Result<Object> object = node.owner().store.find(test::as_bytes(id));
    if (!object) return "";
    const std::byte* const first = node.owner().writer.base() + object->object.value + ObjectParts::body_at();
    return {reinterpret_cast<const char*>(first), bytes.size()};
  }
  void expect_nothing_is_left() {
    EXPECT_EQ(here(), "");
    EXPECT_EQ(node.owner().store.accounts().creations, 0U);
    EXPECT_EQ(node.owner().store.accounts().used(), 0U);
    EXPECT_TRUE(node.owner().is_sound());
  }

  ToldNode node;
  const std::string id = test::id_homed_at(node, "a");
  std::string bytes = std::string(20'000, '\0');
  ToldNode::Peer caller;  // "b".
  ToldNode::Peer client;
  wire::TransferRequest request{};  // The last one.
  size_t transfers = 0;
  std::vector<TransferMethod> asked;
  std::function<ToldNode::Said(const wire::TransferRequest&)> on_transfer =
      [this](const wire::TransferRequest& of) { return by_messages(of); };
  std::function<ToldNode::Said(const wire::DataRequest&)> on_data = [this](const wire::DataRequest& of) {
    return ToldNode::Said(Code::kOk, bytes.substr(of.offset, of.bytes));
  };
  std::function<ToldNode::Said(const wire::DataRequest&)> on_digest = [this](const wire::DataRequest& of) {
    const std::string piece = bytes.substr(of.offset, of.bytes);
    return ToldNode::Said(Code::kOk, body_of(wire::DigestReply{hash_key(test::as_bytes(piece), 0)}));
  };
};

TEST_F(ObjectTransferTest, a_holder_that_serves_no_windows_gives_in_messages) {
  on_transfer = [this](const wire::TransferRequest& of) {
    return of.by == TransferBy::kReads ? ToldNode::Said(Code::kUnsupported, "") : by_messages(of);
  };
  EXPECT_EQ(get(), Code::kOk);
  EXPECT_EQ(here(), bytes);
  node.settle();
  EXPECT_EQ(asked.back(), TransferMethod::kDone);
}

TEST_F(ObjectTransferTest, pieces_of_several_regions_are_read_into_one_body) {
  std::string first = bytes.substr(0, 7'000);
  std::string second = bytes.substr(7'000, 1);
  std::string third = bytes.substr(7'001);
  on_transfer = [&](const wire::TransferRequest& of) {
    EXPECT_EQ(of.by, TransferBy::kReads);
    return by_reads({window(0x9001, first, 0), window(0x9002, second, 7'000), window(0x9003, third, 7'001)});
  };
  EXPECT_EQ(get(), Code::kOk);
  EXPECT_EQ(here(), bytes);
  node.settle();
  EXPECT_EQ(asked, (std::vector{TransferMethod::kTransfer, TransferMethod::kDone}));
}

TEST_F(ObjectTransferTest, a_holder_that_lies_about_pieces_is_left_before_anything_is_read) {
  std::string memory = bytes;
  const wire::TransferPiece all = window(0x9001, memory);
  const auto with = [&](uint64_t offset, uint64_t length) {
    wire::TransferPiece piece = all;
    piece.offset = offset;
    piece.bytes = length;
    return piece;
  };
  wire::TransferPiece beyond = all;
  beyond.address = RemotePointer::at(0x9001, RemotePointer::kOffsetMask - 5).bits;
  const std::vector<std::vector<wire::TransferPiece>> lies = {
      {},
      {with(0, bytes.size() - 1)},
      {with(0, bytes.size() + 1)},
      {with(0, UINT64_MAX)},
      {with(1, bytes.size() - 1)},
      {with(0, 0), with(0, bytes.size())},
      // As many bytes as the object has, in the wrong places.
      {with(1, bytes.size())},
      {with(0, 10), with(9, bytes.size() - 10)},
      {with(0, 10), with(11, bytes.size() - 10)},
      {with(0, 10), with(9, bytes.size() - 9)},
      {with(0, 10), with(11, bytes.size() - 11)},
      {with(0, bytes.size()), with(bytes.size(), 1)},
      {with(0, 10), with(10, UINT64_MAX - 5)},
      {beyond},
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    on_transfer = [&](const wire::TransferRequest&) { return by_reads(lies[i]); };
    EXPECT_NE(get(), Code::kOk) << i;
    expect_nothing_is_left();
  }
  on_transfer = [&](const wire::TransferRequest&) { return by_reads({all}); };
  EXPECT_EQ(get(), Code::kOk);
  EXPECT_EQ(here(), bytes);
}

TEST_F(ObjectTransferTest, an_answer_of_another_length_or_form_is_no_answer) {
  const auto none = [](const wire::TransferRequest&) { return ToldNode::Said(Code::kUnsupported, ""); };
  using Twist = std::function<void(wire::TransferReply&, std::string&)>;
  const std::vector<Twist> twists = {[](wire::TransferReply&, std::string& first) { first.pop_back(); },
                                     [](wire::TransferReply&, std::string& first) { first += "x"; },
                                     [](wire::TransferReply&, std::string& first) { first.clear(); },
                                     [](wire::TransferReply& reply, std::string&) { reply.transfer = 0; },
                                     [](wire::TransferReply& reply, std::string&) { reply.pieces = 1; },
                                     [](wire::TransferReply& reply, std::string&) { reply.reserved = 1; }};
  for (size_t i = 0; i < twists.size(); ++i) {
    on_transfer = [&, i](const wire::TransferRequest& of) {
      if (of.by == TransferBy::kReads) return none(of);
      wire::TransferReply reply{.transfer = 5, .digest = 0, .pieces = 0, .reserved = 0};
      std::string first = bytes.substr(of.offset, of.bytes);
      twists[i](reply, first);
      return ToldNode::Said(Code::kOk, body_of(reply, first));
    };
    EXPECT_NE(get(), Code::kOk) << i;
    expect_nothing_is_left();
  }
  on_transfer = [&](const wire::TransferRequest& of) {
    return of.by == TransferBy::kReads ? none(of) : by_messages(of);
  };
  for (const size_t wrong : {size_t{0}, size_t{1}, size_t{100}, size_t{4000}}) {
    on_data = [&, wrong](const wire::DataRequest& of) {
      return ToldNode::Said(Code::kOk, std::string(of.bytes == wrong ? wrong + 1 : wrong, 'x'));
    };
    EXPECT_NE(get(), Code::kOk) << wrong;
    expect_nothing_is_left();
  }
}

// One bit of the first piece, of a later one, and of what a READ brings. A get that is not checked does not
// notice it: digests cost a walk over all bytes at both ends.
TEST_F(ObjectTransferTest, a_checked_get_finds_a_bit_that_was_flipped_on_the_way) {
  constexpr uint8_t kChecked = wire::AwaitRequest::kChecked;
  const auto flipped_at = [](std::string text, size_t at) {
    text[at] = static_cast<char>(text[at] ^ 1);
    return text;
  };
  const auto messages = [this](const wire::TransferRequest& of) {
    return of.by == TransferBy::kReads ? ToldNode::Said(Code::kUnsupported, "") : by_messages(of);
  };
  const auto honest_data = on_data;
  on_transfer = [&](const wire::TransferRequest& of) {
    ToldNode::Said said = messages(of);
    if (of.by == TransferBy::kMessages) said.second = flipped_at(said.second, said.second.size() - 1);
    return said;
  };
  EXPECT_NE(get(kChecked), Code::kOk);
  expect_nothing_is_left();
  on_transfer = messages;
  on_data = [&](const wire::DataRequest& of) {
    ToldNode::Said said = honest_data(of);
    if (of.offset > 10'000) said.second = flipped_at(said.second, 0);
    return said;
  };
  EXPECT_NE(get(kChecked), Code::kOk);
  expect_nothing_is_left();
  std::string memory = flipped_at(bytes, 5'000);
  const wire::TransferPiece piece = window(0x9001, memory);
  on_transfer = [&](const wire::TransferRequest&) { return by_reads({piece}); };
  EXPECT_NE(get(kChecked), Code::kOk);
  expect_nothing_is_left();
  memory = bytes;
  EXPECT_EQ(get(kChecked), Code::kOk);
  EXPECT_EQ(here(), bytes);
}

TEST_F(ObjectTransferTest, a_get_that_is_not_checked_takes_other_bytes_of_the_right_length) {
  std::string memory = bytes;
  memory[5'000] = static_cast<char>(memory[5'000] ^ 1);
  on_transfer = [&](const wire::TransferRequest&) { return by_reads({window(0x9001, memory)}); };
  EXPECT_EQ(get(), Code::kOk);
  EXPECT_EQ(here(), memory);
}

// The holder forgot the transfer once: it is begun again, and only what was missing is asked for.
TEST_F(ObjectTransferTest, a_transfer_that_the_holder_gave_up_is_begun_again) {
  bool has_forgotten = false;
  on_transfer = [this](const wire::TransferRequest& of) {
    return of.by == TransferBy::kReads ? ToldNode::Said(Code::kUnsupported, "") : by_messages(of);
  };
  size_t pieces = 0;
  on_data = [&](const wire::DataRequest& of) {
    if (++pieces == 3 && !std::exchange(has_forgotten, true)) return ToldNode::Said(Code::kInvalidated, "");
    return ToldNode::Said(Code::kOk, bytes.substr(of.offset, of.bytes));
  };
  EXPECT_EQ(get(), Code::kOk);
  EXPECT_EQ(here(), bytes);
  EXPECT_TRUE(has_forgotten);
}

// Evicted between look-up and TRANSFER.
TEST_F(ObjectTransferTest, a_holder_without_the_object_is_asked_once_a_look) {
  on_transfer = [](const wire::TransferRequest&) { return ToldNode::Said(Code::kNotFound, ""); };
  EXPECT_EQ(get(), Code::kAway) << "the home knows of no withdraw";
  EXPECT_LE(transfers, 3U);
  expect_nothing_is_left();
}

// The holder ends between TRANSFER and DATA.
TEST_F(ObjectTransferTest, the_end_of_the_session_ends_what_is_asked_there) {
  on_transfer = [this](const wire::TransferRequest& of) {
    return of.by == TransferBy::kReads ? ToldNode::Said(Code::kUnsupported, "") : by_messages(of);
  };
  node.keeps = [](const rpc::Responder& from) {
    return from.method == static_cast<uint16_t>(TransferMethod::kData);
  };
  const uint64_t call = start_get();
  node.settle();
  EXPECT_FALSE(client->done(call));
  EXPECT_EQ(node.owner().store.accounts().creations, 1U);
  node.lose();
  ASSERT_TRUE(node.run_until([&] { return client->done(call); }));
  EXPECT_EQ(client->finish(call).code, Code::kAway);
  expect_nothing_is_left();
}

// The pull has ended, and its room is another object's, when the DATA comes.
TEST_F(ObjectTransferTest, a_late_answer_writes_nothing) {
  on_transfer = [this](const wire::TransferRequest& of) {
    return of.by == TransferBy::kReads ? ToldNode::Said(Code::kUnsupported, "") : by_messages(of);
  };
  std::vector<rpc::Responder> late;
  node.keeps = [&](const rpc::Responder& from) {
    if (from.method != static_cast<uint16_t>(TransferMethod::kData)) return false;
    late.push_back(from);
    return true;
  };
  const uint64_t call = start_get();
  ASSERT_TRUE(node.run_until([&] { return client->done(call); }));
  EXPECT_NE(client->finish(call).code, Code::kOk);
  node.pass(60 * kSecond_ns);
  expect_nothing_is_left();
  ASSERT_FALSE(late.empty());
  // All memory has other objects now.
  ObjectStore& store = node.owner().store;
  std::vector<std::pair<std::string, uint64_t>> made;
  for (int i = 0;; ++i) {
    const std::string name = "other" + std::to_string(i);
    const Result<Creation> one = store.create({.id = test::as_bytes(name), .birth = 1, .body_bytes = 15'000});
    if (!one) break;
    store.writer().copy(one->object.plus(ObjectParts::body_at()), test::as_bytes(std::string(15'000, 'o')));
    ASSERT_TRUE(store.seal(test::as_bytes(name), 1).has_value());
    made.emplace_back(name, one->object.value);
    if (made.size() == 100) break;
  }
  for (const rpc::Responder& one : late) node.reply(one, {Code::kOk, std::string(4'000, 'L')});
  for (const auto& [name, at] : made) {
    const std::byte* const first = node.owner().writer.base() + at + ObjectParts::body_at();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(first), 15'000), std::string(15'000, 'o')) << name;
  }
}

// What is agreed upon when the bytes are there is not what it was: nothing is published.
TEST_F(ObjectTransferTest, a_list_that_changes_in_the_middle_ends_the_pull) {
  on_transfer = [this](const wire::TransferRequest& of) {
    return of.by == TransferBy::kReads ? ToldNode::Said(Code::kUnsupported, "") : by_messages(of);
  };
  std::vector<rpc::Responder> held;
  std::vector<wire::DataRequest> wanted;
  node.keeps = [&](const rpc::Responder& from) {
    if (from.method != static_cast<uint16_t>(TransferMethod::kData) || !held.empty()) return false;
    held.push_back(from);
    return true;
  };
  const uint64_t call = start_get();
  node.settle();
  ASSERT_EQ(held.size(), 1U);
  node.follow(node.list.version + 1);
  node.settle();
  // The answer to the first DATA: the bytes behind those of TRANSFER.
  const auto first = static_cast<size_t>(request.bytes);
  node.reply(held.front(), {Code::kOk, bytes.substr(first, 4096 - 16)});
  ASSERT_TRUE(node.run_until([&] { return client->done(call); }));
  EXPECT_NE(client->finish(call).code, Code::kOk);
  EXPECT_EQ(here(), "");
}

}  // namespace
}  // namespace refract::object::object_transfer_test
