// SPDX-License-Identifier: Apache-2.0
// A node that gives objects, and the session of a member that asks for them, call by call.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "refract/base/check.h"
#include "refract/object/calls/piece_traffic.h"
#include "refract/object/testing/test_directory.h"

namespace refract::object::test {

class AskedGiver : public testing::Test {
 protected:
  using Method = wire::TransferMethod;
  static constexpr uint64_t kBirth = 7;

  AskedGiver() { hello(peer); }
  void hello(const ToldNode::Peer& from) {
    REFRACT_CHECK(node.call(from, wire::DirectoryMethod::kHello, hello_body(node, "b")).code == Code::kOk);
  }
  [[nodiscard]] Answer call(Method method, std::string_view body) {
    return node.call(peer, static_cast<uint16_t>(method), body);
  }
  [[nodiscard]] Answer data(uint64_t number, uint64_t offset, uint32_t length,
                            Method method = Method::kData) {
    return call(method, body_of(wire::DataRequest{
                            .transfer = number, .offset = offset, .bytes = length, .reserved = 0}));
  }
  [[nodiscard]] Code done(uint64_t number) {
    return call(Method::kDone, body_of(wire::DoneRequest{number})).code;
  }
  // By READ.
  [[nodiscard]] Code read(const wire::TransferPiece& piece, std::string& into) {
    into.assign(piece.bytes, '\0');
    PieceTraffic traffic(*peer, node.shard, kSecond_ns);
    auto* const target = reinterpret_cast<std::byte*>(into.data());
    return block_on(node.shard, traffic.carry({.op = fabric::Op::kRead,
                                               .window = {.address = piece.address, .key = piece.key},
                                               .offset = 0,
                                               .local = {target, into.size()}}));
  }
  [[nodiscard]] TransferGiver::Counts counts() { return node.owner().giver->counts(); }

  ToldNode node;
  const std::string id = id_homed_at(node, "a");
  ToldNode::Peer peer = node.connect();
};

}  // namespace refract::object::test
