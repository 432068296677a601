// SPDX-License-Identifier: Apache-2.0
// One object to many members at once (docs/design/061-broadcast.md): at the member whose client asks for it,
// which makes the plan and sends the orders, and at the members that follow them.
//
// An order is followed by a look and a pull as any other; only the nodes that it pulls from are different. So
// nothing of what the homes know and allow is different either.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/prng.h"
#include "refract/object/directory/broadcast_plan.h"
#include "refract/object/directory/directory_state.h"

namespace refract::object {

struct Directory::State::Broadcaster {
  static constexpr size_t kSendingsMax = 16;  // Under way; beyond them kOverloaded.
  static constexpr size_t kOrdersMax = 1024;  // Likewise, of other members and this one.

  explicit Broadcaster(State& of);

  void broadcast(std::string_view id, std::vector<std::string> nodes, uint64_t until_ns,
                 TakeBroadcasted take);
  // There is another list: what is under way ends, and is told as such.
  void list_changed() noexcept;
  // Another member's order.
  void bring(const rpc::Responder& from, std::span<const std::byte> body);
  // A look for this id begins: its outcome is that of the orders that have come by now.
  void look_begins(std::string_view id);
  void look_ended(const Search& search);
  // Of an order that is being followed; null: it is over. Until the next call of the broadcaster.
  [[nodiscard]] const Course* course_of(std::string_view id, uint64_t plan) const;
  // Behind a look that has found nothing. False: it is too late for another one.
  [[nodiscard]] bool may_look_again(Search& search) const;
  // If it follows a plan: who gives it, in the order in which they are asked.
  void add_forebears(Pull& pull, std::vector<Peer*>& givers) const;
  // Whether an order came meanwhile.
  [[nodiscard]] bool is_awaited(std::string_view id) const;

  State& state;

 private:
  struct Sending {
    explicit Sending(runtime::Shard& shard) : news(shard) {}
    uint64_t list_version = 0;
    uint64_t until_ns = 0;
    std::string id;
    std::vector<MemberIndex> members;
    std::vector<BroadcastNode> nodes;  // Likewise.
    uint64_t plan = 0;
    uint64_t birth = 0;
    BroadcastShape shape;
    MemberIndex root = 0;
    std::vector<MemberIndex> receivers;  // In the plan's order.
    size_t running = 0;
    Signal news;
  };
  struct Order {
    std::string id;
    Course course;
    bool is_looked_for = false;
    std::function<void(Code)> done;
  };

  [[nodiscard]] Code take_names(std::span<const std::string> names, Sending& sending) const;
  // Null: it is over, or the list is another one.
  [[nodiscard]] Sending* at(uint64_t number) noexcept;
  [[nodiscard]] Task<> run(uint64_t number, TakeBroadcasted take);
  // kOk: the orders can be sent.
  [[nodiscard]] Code make_plan(Sending& sending, const Located& located);
  [[nodiscard]] BroadcastPaths paths_of(const Sending& sending) const;
  [[nodiscard]] std::vector<MemberIndex> forebears(const Sending& sending, size_t receiver) const;
  void send(uint64_t number, MemberIndex member, std::vector<MemberIndex> before);
  [[nodiscard]] Task<> send_to(uint64_t number, MemberIndex member, std::vector<MemberIndex> forebears);
  [[nodiscard]] static wire::BringRequest request_of(const Sending& sending, size_t forebears,
                                                     uint64_t now_ns);
  void settle(uint64_t number, MemberIndex member, Code code);
  [[nodiscard]] Code take_course(const wire::BringRequest& request, std::span<const std::byte> members,
                                 Course& course) const;
  [[nodiscard]] Code add_forebears(std::span<const MemberIndex> members, Course& course) const;
  void take_order(const std::string& id, Course course, std::function<void(Code)> done);
  [[nodiscard]] Code outcome_of(const Order& order, Code code) const;

  std::map<uint64_t, std::unique_ptr<Sending>> sendings_;
  uint64_t last_ = 0;
  Prng prng_;  // Of plans.
  std::vector<Order> orders_;
};

}  // namespace refract::object
