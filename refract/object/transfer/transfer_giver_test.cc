// SPDX-License-Identifier: Apache-2.0
// The holder's end: what other members ask of a node, in any order and with anything wrong in it.
#include "refract/object/transfer/transfer_giver.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "refract/base/hash.h"
#include "refract/object/testing/test_transfers.h"

namespace refract::object {
namespace {

using test::body_of;
using test::ToldNode;
using wire::TransferBy;

class TransferGiverTest : public test::AskedGiver {
 protected:
  TransferGiverTest() {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 % 251);
    node.owner().make(id, bytes, kBirth);
  }
  [[nodiscard]] wire::TransferRequest request(TransferBy by, uint32_t asked = 0, uint64_t offset = 0) const {
    return {.birth = kBirth,
            .body_bytes = bytes.size(),
            .offset = offset,
            .metadata_bytes = 0,
            .bytes = asked,
            .id_bytes = test::short_of(id.size()),
            .by = by,
            .wants_digest = 0,
            .reserved = {}};
  }
  [[nodiscard]] test::Answer transfer(const wire::TransferRequest& asked) {
    return call(Method::kTransfer, body_of(asked, id));
  }
  [[nodiscard]] uint64_t filled_bytes() const {
    return ObjectParts{.body_bytes = bytes.size(), .metadata_bytes = 0, .id_bytes = 0}.filled_bytes();
  }
  [[nodiscard]] uint64_t open() { return counts().open; }
  [[nodiscard]] uint64_t pins() { return node.owner().fetches.count(); }

  std::string bytes = std::string(20'000, '\0');
};

TEST_F(TransferGiverTest, what_fits_an_answer_takes_one_call_and_nothing_is_kept) {
  node.owner().make("small", "red", kBirth);
  wire::TransferRequest asked = request(TransferBy::kMessages, 8);
  asked.body_bytes = 3;
  asked.id_bytes = 5;
  asked.wants_digest = 1;
  const test::Answer answer = call(Method::kTransfer, body_of(asked, "small"));
  ASSERT_EQ(answer.code, Code::kOk);
  const auto reply = answer.as<wire::TransferReply>();
  EXPECT_EQ(reply.transfer, 0U);
  EXPECT_EQ(reply.pieces, 0U);
  const std::string came = answer.behind<wire::TransferReply>();
  EXPECT_EQ(came.substr(0, 3), "red");
  EXPECT_EQ(reply.digest, hash_key(test::as_bytes(came), 0));
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(pins(), 0U);
}

TEST_F(TransferGiverTest, a_long_object_comes_by_messages_in_any_order_and_stays_until_done) {
  const test::Answer answer = transfer(request(TransferBy::kMessages, 3000, 1000));
  ASSERT_EQ(answer.code, Code::kOk);
  const uint64_t number = answer.as<wire::TransferReply>().transfer;
  ASSERT_NE(number, 0U);
  EXPECT_EQ(answer.behind<wire::TransferReply>(), bytes.substr(1000, 3000));
  // Deleted meanwhile: it is being given still.
  ASSERT_TRUE(node.owner().store.erase(test::as_bytes(id), kBirth).has_value());
  for (const uint64_t offset : {uint64_t{16'000}, uint64_t{0}, uint64_t{5000}}) {
    const test::Answer piece = data(number, offset, 4000);
    ASSERT_EQ(piece.code, Code::kOk);
    EXPECT_EQ(piece.bytes, bytes.substr(offset, 4000));
  }
  const test::Answer digest = data(number, 0, 20'000, Method::kDigest);
  EXPECT_EQ(digest.as<wire::DigestReply>().digest, hash_key(test::as_bytes(bytes), 0));
  EXPECT_EQ(node.owner().store.accounts().departed, 1U);
  EXPECT_EQ(done(number), Code::kOk);
  node.pass(kSecond_ns);
  EXPECT_EQ(node.owner().store.accounts().departed, 0U) << "nothing holds it any more";
  EXPECT_EQ(done(number), Code::kInvalidated);
  EXPECT_EQ(data(number, 0, 1).code, Code::kInvalidated);
}

TEST_F(TransferGiverTest, a_long_object_is_read_where_the_answer_says_until_done) {
  const test::Answer answer = transfer(request(TransferBy::kReads));
  ASSERT_EQ(answer.code, Code::kOk);
  const auto reply = answer.as<wire::TransferReply>();
  ASSERT_EQ(reply.pieces, 1U);
  wire::TransferPiece piece{};
  std::memcpy(&piece, answer.behind<wire::TransferReply>().data(), sizeof(piece));
  EXPECT_EQ(piece.offset, 0U);
  EXPECT_EQ(piece.bytes, filled_bytes());
  std::string came;
  ASSERT_EQ(read(piece, came), Code::kOk);
  EXPECT_EQ(came.substr(0, bytes.size()), bytes);
  EXPECT_EQ(done(reply.transfer), Code::kOk);
  EXPECT_EQ(read(piece, came), Code::kAccessDenied) << "a READ behind the end meets other bytes";
  EXPECT_EQ(pins(), 0U);
}

// Of the puller's session nothing comes any more: the end says what DONE would have.
TEST_F(TransferGiverTest, the_end_of_a_session_ends_its_transfers) {
  ASSERT_EQ(transfer(request(TransferBy::kReads)).code, Code::kOk);
  ASSERT_EQ(transfer(request(TransferBy::kMessages, 10)).code, Code::kOk);
  EXPECT_EQ(open(), 2U);
  EXPECT_EQ(pins(), 2U);
  peer.reset();
  node.settle();
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(pins(), 0U);
  EXPECT_EQ(node.owner().windows.open_count(), 0U);
}

// The answer or DONE was lost, and the session stands: the holder's patience has an end.
TEST_F(TransferGiverTest, a_transfer_of_which_nothing_is_asked_ends) {
  const test::Answer idle = transfer(request(TransferBy::kReads));
  const test::Answer used = transfer(request(TransferBy::kMessages, 10));
  const uint64_t number = used.as<wire::TransferReply>().transfer;
  node.pass(TransferGiver::kIdle_ns / 2);
  EXPECT_EQ(data(number, 0, 10).code, Code::kOk);
  EXPECT_EQ(open(), 2U);
  node.pass(TransferGiver::kIdle_ns / 2 + 2 * kSecond_ns);
  EXPECT_EQ(open(), 1U);
  EXPECT_EQ(data(number, 0, 10).code, Code::kOk) << "this one is asked of";
  wire::TransferPiece piece{};
  std::memcpy(&piece, idle.behind<wire::TransferReply>().data(), sizeof(piece));
  std::string came;
  EXPECT_EQ(read(piece, came), Code::kAccessDenied);
  node.pass(TransferGiver::kIdle_ns + 3 * kSecond_ns);
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(pins(), 0U);
  EXPECT_EQ(counts().idle, 2U);
}

TEST_F(TransferGiverTest, another_birth_or_other_lengths_are_refused) {
  wire::TransferRequest asked = request(TransferBy::kMessages, 10);
  asked.birth = kBirth + 1;
  EXPECT_EQ(transfer(asked).code, Code::kNotFound);
  asked = request(TransferBy::kMessages, 10);
  asked.body_bytes += 1;
  EXPECT_EQ(transfer(asked).code, Code::kInvalidArgument);
  asked = request(TransferBy::kMessages, 10);
  asked.metadata_bytes = 1;
  EXPECT_EQ(transfer(asked).code, Code::kInvalidArgument);
  ASSERT_TRUE(node.owner().store.erase(test::as_bytes(id), kBirth).has_value());
  EXPECT_EQ(transfer(request(TransferBy::kMessages, 10)).code, Code::kNotFound)
      << "evicted behind the look-up";
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(pins(), 0U);
}

TEST_F(TransferGiverTest, bytes_that_are_not_there_are_refused) {
  const std::vector<std::pair<uint64_t, uint32_t>> outside = {{filled_bytes(), 1}, {filled_bytes() - 1, 2},
                                                              {UINT64_MAX, 1},     {UINT64_MAX - 5, 10},
                                                              {0, UINT32_MAX},     {0, 4096}};
  const uint64_t number = transfer(request(TransferBy::kMessages, 10)).as<wire::TransferReply>().transfer;
  for (const auto& [offset, length] : outside) {
    EXPECT_EQ(transfer(request(TransferBy::kMessages, length, offset)).code, Code::kInvalidArgument)
        << offset << " " << length;
    if (offset == 0 && length == 4096) continue;
    EXPECT_EQ(data(number, offset, length).code, Code::kInvalidArgument) << offset << " " << length;
    EXPECT_EQ(data(number, offset, length, Method::kDigest).code, Code::kInvalidArgument);
  }
  EXPECT_EQ(transfer(request(TransferBy::kReads, 1)).code, Code::kInvalidArgument);
  EXPECT_EQ(open(), 1U);
}

TEST_F(TransferGiverTest, calls_that_make_no_sense_change_nothing) {
  const std::string good = body_of(request(TransferBy::kReads), id);
  const auto with = [&](size_t at, char byte) {
    std::string body = good;
    body[at] = byte;
    return body;
  };
  EXPECT_EQ(call(Method::kTransfer, "").code, Code::kMalformed);
  EXPECT_EQ(call(Method::kTransfer, good + "x").code, Code::kMalformed);
  EXPECT_EQ(call(Method::kTransfer, good.substr(0, good.size() - 1)).code, Code::kMalformed);
  EXPECT_EQ(call(Method::kTransfer, with(offsetof(wire::TransferRequest, by), 0)).code, Code::kMalformed);
  EXPECT_EQ(call(Method::kTransfer, with(offsetof(wire::TransferRequest, by), 3)).code, Code::kMalformed);
  EXPECT_EQ(call(Method::kTransfer, with(offsetof(wire::TransferRequest, wants_digest), 2)).code,
            Code::kMalformed);
  EXPECT_EQ(call(Method::kTransfer, with(offsetof(wire::TransferRequest, reserved), 1)).code,
            Code::kMalformed);
  EXPECT_EQ(call(Method::kTransfer, with(offsetof(wire::TransferRequest, id_bytes), 0)).code,
            Code::kMalformed);
  wire::TransferRequest nameless = request(TransferBy::kReads);
  nameless.id_bytes = 0;
  EXPECT_EQ(call(Method::kTransfer, body_of(nameless)).code, Code::kInvalidArgument);
  wire::DataRequest bad{.transfer = 1, .offset = 0, .bytes = 1, .reserved = 1};
  EXPECT_EQ(call(Method::kData, body_of(bad)).code, Code::kMalformed);
  bad.reserved = 0;
  EXPECT_EQ(call(Method::kData, body_of(bad, "x")).code, Code::kMalformed);
  EXPECT_EQ(call(Method::kDigest, body_of(bad).substr(1)).code, Code::kMalformed);
  EXPECT_EQ(call(Method::kDone, "1234567").code, Code::kMalformed);
  EXPECT_EQ(node.call(peer, 0x616, good).code, Code::kUnsupported);
  EXPECT_EQ(open(), 0U);
}

TEST_F(TransferGiverTest, a_session_has_so_many_transfers_and_touches_no_others) {
  std::vector<uint64_t> numbers;
  for (size_t i = 0; i < wire::kTransfersPerSession; ++i) {
    const test::Answer answer = transfer(request(TransferBy::kReads));
    ASSERT_EQ(answer.code, Code::kOk) << i;
    numbers.push_back(answer.as<wire::TransferReply>().transfer);
  }
  EXPECT_EQ(transfer(request(TransferBy::kReads)).code, Code::kOverloaded);
  EXPECT_EQ(transfer(request(TransferBy::kMessages, 1)).code, Code::kOverloaded);
  const ToldNode::Peer other = node.connect();
  hello(other);
  const auto method = [](Method one) { return static_cast<uint16_t>(one); };
  EXPECT_EQ(node.call(other, method(Method::kDone), body_of(wire::DoneRequest{numbers[0]})).code,
            Code::kInvalidated);
  EXPECT_EQ(node.call(other, method(Method::kTransfer), body_of(request(TransferBy::kReads), id)).code,
            Code::kOk);
  EXPECT_EQ(done(numbers[0]), Code::kOk);
  EXPECT_EQ(transfer(request(TransferBy::kMessages, 1)).code, Code::kOk);
}

// Who asks must be a member under the same list.
TEST_F(TransferGiverTest, a_session_without_a_hello_under_this_list_gets_nothing) {
  const ToldNode::Peer stranger = node.connect();
  const std::string body = body_of(request(TransferBy::kReads), id);
  const auto method = static_cast<uint16_t>(Method::kTransfer);
  EXPECT_EQ(node.call(stranger, method, body).code, Code::kVersionMismatch);
  hello(stranger);
  EXPECT_EQ(node.call(stranger, method, body).code, Code::kOk);
  node.follow(node.list.version + 1);
  EXPECT_EQ(node.call(stranger, method, body).code, Code::kVersionMismatch);
  EXPECT_EQ(transfer(request(TransferBy::kReads)).code, Code::kVersionMismatch);
}

}  // namespace
}  // namespace refract::object
