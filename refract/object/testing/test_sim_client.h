// SPDX-License-Identifier: Apache-2.0
// A client of one node that has objects, over the simulated network.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "refract/base/check.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/testing/test_service.h"
#include "refract/object/testing/test_objects.h"
#include "refract/rpc/session.h"

namespace refract::object::test {

// A client of one node.
class SimClient final : private rpc::ReplyTaker {
 public:
  SimClient(sim::World& world, std::string_view name, std::string_view node)
      : host(world.add_host(name)),
        world_(world),
        node_(node),
        dispatcher_(host.domain(), host.shard()),
        last_claim_(world.prng().next()) {}

  [[nodiscard]] bool is_open() const {
    return session_ != nullptr && session_->state() == rpc::Session::State::kOpen;
  }
  void try_connect() {
    if (session_ != nullptr && session_->state() != rpc::Session::State::kClosed) return;
    session_.reset();
    const Reported<fabric::Channel*> channel = host.domain().connect(node_);
    if (channel) session_ = std::make_unique<rpc::Session>(**channel, host.shard());
  }
  void connect() {
    REFRACT_CHECK(world_.run_until([&] {
      try_connect();
      return is_open();
    }));
  }
  // 0: not now.
  [[nodiscard]] uint64_t try_start(wire::Method method, std::string_view body) {
    const uint64_t id =
        session_->start({.method = static_cast<uint16_t>(method), .head = as_bytes(body)}, *this, 0);
    if (id != 0) answer_.reset();
    return id;
  }
  // 0: there is no session.
  [[nodiscard]] uint64_t start(wire::Method method, std::string_view body) {
    uint64_t id = 0;
    (void)world_.run_until([&] {
      if (!is_open()) return true;
      if (id == 0) id = try_start(method, body);
      return id != 0;
    });
    return id;
  }
  [[nodiscard]] bool is_done(uint64_t id) const { return id == 0 || answer_.has_value(); }
  // kIndeterminate where no answer came.
  [[nodiscard]] Answer finish(uint64_t id) {
    if (id == 0) return {.code = Code::kUnavailable, .bytes = {}};
    (void)world_.run_until([&] { return answer_.has_value(); });
    return std::move(*answer_);
  }
  [[nodiscard]] Answer call(wire::Method method, std::string_view body) {
    return finish(start(method, body));
  }
  [[nodiscard]] Code put(std::string_view id, std::string_view body) {
    return call(wire::Method::kPut, put_body(id, ++last_claim_, body)).code;
  }
  // The body, or the code's name.
  [[nodiscard]] std::string get(std::string_view id, uint64_t timeout_ns = 0) {
    return body_in(call(wire::Method::kFetch, await_body(id, timeout_ns)));
  }
  [[nodiscard]] static std::string body_in(const Answer& answer) {
    if (answer.code != Code::kOk) return std::string(text(answer.code));
    const auto reply = answer.as<wire::FetchReply>();
    return answer.behind<wire::FetchReply>().substr(0, reply.object.body_bytes);
  }
  [[nodiscard]] Code remove(std::string_view id, uint64_t birth = 0) {
    last_removed = call(wire::Method::kDelete, id_body(id, birth));
    return last_removed.code;
  }
  Answer last_removed;
  sim::Host& host;

 private:
  // Once at a time.
  void on_reply(uint32_t /*place*/, const runtime::OpResult& reply) noexcept override {
    answer_ = Answer{.code = reply.code, .bytes = kv::test::text_of(reply.bytes)};
  }

  sim::World& world_;
  std::string node_;
  fabric::Dispatcher dispatcher_;
  std::unique_ptr<rpc::Session> session_;
  std::optional<Answer> answer_;
  uint64_t last_claim_;
};

}  // namespace refract::object::test
