// SPDX-License-Identifier: Apache-2.0
// Connections of numbered writes to a served table (test_service.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refract/base/check.h"
#include "refract/kv/layout/numbered_wire.h"
#include "refract/kv/testing/test_numbered_calls.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv::test {

// A connection that has a session, or not yet.
struct NumberedPeer {
  explicit NumberedPeer(Served& of, bool begins = true) : served(of), peer(of.connect()) {
    if (begins) REFRACT_CHECK(begin() == Code::kOk);
  }
  Code begin() { return take_session(wire::NumberedMethod::kSessionBegin, ""); }
  Code resume(const wire::SessionReply& other) {
    return take_session(wire::NumberedMethod::kSessionResume,
                        body_of(wire::SessionRequest{.id = other.id, .secret = other.secret}));
  }
  NumberedReply call(const std::vector<NumberedOp>& operations,
                     const std::vector<NumberedAcknowledgement>& told = {}) {
    return call_body(operations_body(operations, false, told));
  }
  NumberedReply call_body(const std::string& body) {
    return numbered_reply(
        peer.session->call_and_wait(call_of(body), served.shard.refresh_now() + kSecond_ns));
  }
  NumberedAnswer one(const NumberedOp& operation) { return call({operation}).one(); }

  // Sent, and worked on as far as it goes.
  uint64_t start(const std::vector<NumberedOp>& operations, bool may_wait = true) {
    const std::string body = operations_body(operations, may_wait);
    const uint64_t id = peer.session->start(call_of(body));
    REFRACT_CHECK(id != 0);  // It fits, and there is a credit.
    served.settle();
    return id;
  }
  [[nodiscard]] bool is_answered(uint64_t id) const { return peer.session->done(id); }
  NumberedReply finish(uint64_t id) { return numbered_reply(peer.session->finish(id)); }

  Served& served;
  Served::Peer peer;
  wire::SessionReply session{};

 private:
  [[nodiscard]] static rpc::Call call_of(const std::string& body) {
    return {.method = static_cast<uint16_t>(wire::NumberedMethod::kOperations), .head = bytes_of(body)};
  }
  Code take_session(wire::NumberedMethod method, const std::string& body) {
    std::string reply;
    const Code code = served.call(peer, static_cast<wire::Method>(method), bytes_of(body), &reply);
    if (code == Code::kOk) session = reply_as<wire::SessionReply>(reply);
    return code;
  }
};

}  // namespace refract::kv::test
