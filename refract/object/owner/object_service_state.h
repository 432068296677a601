// SPDX-License-Identifier: Apache-2.0
// What the service of objects is made of: object_service*.cc.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refract/kv/layout/wire.h"
#include "refract/kv/owner/service/pull_fetcher.h"
#include "refract/object/layout/object_wire.h"
#include "refract/object/owner/notices.h"
#include "refract/object/owner/object_service.h"
#include "refract/object/owner/object_sessions.h"
#include "refract/object/owner/open_creations.h"
#include "refract/runtime/task.h"

namespace refract::object {

// What a client is told where another node was not reached.
[[nodiscard]] inline Code told(Code code) noexcept {
  return code == Code::kUnavailable ? Code::kAway : code;
}

struct ObjectService::State final : private ObjectStore::Listener,
                                    private kv::PullFetcher::Taker,
                                    private Elsewhere::Asker {
  explicit State(const Parts& given);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() override;

  // --- object_service.cc ---
  void session_opened(rpc::SessionId id);
  void session_closed(rpc::SessionId id);
  [[nodiscard]] Session* find(rpc::SessionId id);
  void handle(const rpc::IncomingCall& call);
  void answer(const rpc::Responder& to, Code code, std::span<const std::byte> head = {},
              std::span<const std::byte> tail = {});
  template <typename Reply>
  void answer(const rpc::Responder& to, const Reply& reply, std::span<const std::byte> tail = {}) {
    answer(to, Code::kOk, std::as_bytes(std::span(&reply, 1)), tail);
  }
  // At the end of each turn: what has become possible is done.
  void settle();

  // --- object_service_time.cc ---
  [[nodiscard]] uint64_t next_due_ns() const;
  void arrange_timer();
  [[nodiscard]] runtime::Task<> run_timer();
  void on_time();
  void look_after_departed();

  // --- object_service_room.cc: what waits for room ---
  void make(const MakeCall& making, Session& session);
  void refuse(const MakeCall& making, Code code);
  void release_for(const MakeCall& making);
  [[nodiscard]] Code try_make(const MakeCall& making, Session& session);
  [[nodiscard]] Code put_into(OpenCreation& open, const MakeCall& making,
                              const ObjectStore::NewObject& object);
  [[nodiscard]] Code put_whole(const MakeCall& making, const ObjectStore::NewObject& object);
  // The first that waits has been overtaken so often that nothing else takes room for a moment.
  [[nodiscard]] bool is_turn_of_first() const;
  void give_turn(Waiting& first);
  // Of a kNoSpace that the store has just said: it may be otherwise soon.
  [[nodiscard]] bool room_may_come(uint64_t until_ns);
  [[nodiscard]] bool wait_for_room(Waiting& one);
  bool end_waiting(std::span<const std::byte> id, uint64_t birth);
  void answer_no_space(const rpc::Responder& to);
  void retry_waiting();
  [[nodiscard]] bool retry(Waiting& waiting, Session& session);
  void put_many(const rpc::Responder& from, Session& session, std::span<const std::byte> body) {
    put_many(from, session, body, {});
  }
  [[nodiscard]] static Code parse_many(std::span<const std::byte> body, PutMany& many);
  // False: it waits for room.
  [[nodiscard]] bool advance_many(PutMany& many, std::span<const std::byte> body, Session& session);

  // --- object_service_creations.cc ---
  void adopt_recovered();
  void create(const rpc::Responder& from, Session& session, std::span<const std::byte> body);
  void put(const rpc::Responder& from, Session& session, std::span<const std::byte> body);
  void filled(const rpc::Responder& from, Session& session, std::span<const std::byte> body);
  void seal(const rpc::Responder& from, Session& session, std::span<const std::byte> body);
  void give_up(const rpc::Responder& from, std::span<const std::byte> body);
  // False: there was no window for it.
  [[nodiscard]] bool answer_create(const rpc::Responder& from, OpenCreation& open, bool wants_window);
  [[nodiscard]] static Code take_fill(std::span<const std::byte> body, wire::FillRequest& request,
                                      TakenId& id);
  [[nodiscard]] static Code take_id(std::span<const std::byte> body, wire::IdRequest& request, TakenId& id);
  [[nodiscard]] static Code check_source(const Session& session, const wire::FillRequest& request);
  // For a call that names the birth and does not claim: kAccessDenied, where another session has it.
  [[nodiscard]] Code use(OpenCreation& open, Session& session);
  [[nodiscard]] Code claim(OpenCreation& open, Session& session);
  void leave(OpenCreation& open, bool at_once);
  void close_window(OpenCreation& open);
  void refuse_seals(OpenCreation& open, Code code);
  void read_on(OpenCreation& open);
  void pulled(const kv::PullFetcher::Pull& pull, Code code) noexcept override;
  // Does what comes next, where nothing is READ now. It may be gone afterwards.
  void advance(OpenCreation& open);
  void publish(OpenCreation& open);
  void end(OpenCreation& open);
  void remove(OpenCreation& open);
  void end_unclaimed(uint64_t now_ns);
  void end_overdue_seals(uint64_t now_ns);

  // --- object_service_reading.cc ---
  void await(const rpc::Responder& from, Session& session, bool is_fetch, std::span<const std::byte> body);
  void answer_object(const Awaiting& awaiting, Session& session, const Object& object);
  void fetch_done(const rpc::Responder& from, Session& session, std::span<const std::byte> body);
  void close_fetch(const Fetch& fetch);
  void answer_awaiting();
  [[nodiscard]] static uint64_t due_of(const Awaiting& one);
  // Of another node: it asks for what is here.
  [[nodiscard]] bool is_node(const Session& session) const;
  [[nodiscard]] std::string_view id_of(const Object& object) const noexcept;
  void end_awaiting(uint64_t now_ns);
  void notices(const rpc::Responder& from, Session& session, std::span<const std::byte> body);
  void tell_notices(const NoticeWait& wait, Session& session);
  void answer_notices();
  void end_notice_waits(uint64_t now_ns);

  // --- object_service_lists.cc ---
  void list(const rpc::Responder& from, Session& session, std::span<const std::byte> body);
  [[nodiscard]] std::vector<Row> list_step(uint64_t& cursor);
  void erase(const rpc::Responder& from, std::span<const std::byte> body);
  void keep(const rpc::Responder& from, std::span<const std::byte> body);
  void evict(const rpc::Responder& from, std::span<const std::byte> body);
  void evict_some();
  [[nodiscard]] const HeldBytes& held();
  [[nodiscard]] wire::StatReply stat();

  // --- object_service_elsewhere.cc: where nodes share their objects ---
  // True: it is answered, or will be, when others have said something.
  [[nodiscard]] bool handle_with_others(const rpc::IncomingCall& call, Session& session);
  [[nodiscard]] bool claim_first(const rpc::IncomingCall& call, Session& session);
  [[nodiscard]] static bool read_ids(const rpc::IncomingCall& call, std::vector<ClaimedId>& ids);
  void make_claimed(Claiming& claiming);
  void unclaim_unmade(std::span<const std::byte> id, uint64_t birth);
  void put_many(const rpc::Responder& from, Session& session, std::span<const std::byte> body,
                std::span<const ClaimedId> claimed);
  void erase_everywhere(const rpc::Responder& from, std::span<const std::byte> body);
  void where(const rpc::Responder& from, std::span<const std::byte> body);
  void set_copies(const rpc::Responder& from, std::span<const std::byte> body);
  void rank(const rpc::Responder& from, std::span<const std::byte> body);  // object_service_rank.cc
  void tell_rank(const rpc::Responder& from, const Elsewhere::Ranked& ranked);
  void broadcast(const rpc::Responder& from, std::span<const std::byte> body);  // object_service_broadcast.cc
  void tell_broadcast(const rpc::Responder& from, const Elsewhere::Broadcasted& done);
  void answer_away(const rpc::Responder& to);
  // As many as fit an answer with a head of so many bytes.
  [[nodiscard]] std::vector<std::byte> names_for(const rpc::Responder& to,
                                                 const std::vector<std::string>& names, size_t head_bytes);
  void tell_where(const rpc::Responder& from, const Elsewhere::Located& located);
  void claimed(uint64_t ticket, Code code) noexcept override;
  void removed(uint64_t ticket, const Removed& removed) noexcept override;
  void absent(std::string_view id, uint64_t arrival, Code code) noexcept override;
  [[nodiscard]] bool is_awaited(std::string_view id) const noexcept override;
  [[nodiscard]] bool is_making(std::string_view id, uint64_t birth) const noexcept override;
  void lost(std::string_view id, uint64_t birth) noexcept override;
  void store_changed() noexcept override;

  // --- The store tells ---
  void sealed(std::span<const std::byte> id, const Object& object) override;
  void deleted(std::span<const std::byte> id, const Object& object) override;

  Parts parts;
  rpc::Server* server = nullptr;
  kv::PullFetcher fetcher;
  Notices ring;
  OpenCreations opens;
  Counts counts;
  std::unordered_map<uint64_t, std::unique_ptr<Session>> sessions;

  std::deque<Waiting> waiting;
  std::deque<Waiting> retried;  // While these try again.
  size_t waiting_bytes = 0;
  uint64_t rooms_taken = 0;
  bool is_held_back = false;         // The last try, by the turn of the first that waits.
  std::vector<uint64_t> unrecorded;  // Creations whose seal waits for room in the table.
  bool room_may_have_come = false;
  bool is_under_way = false;  // Objects go, step by step.
  uint64_t retry_ns = kForever_ns;
  uint64_t retry_pause_ns = 0;

  std::deque<Unclaimed> unclaimed;
  size_t unclaimed_count = 0;
  std::vector<uint64_t> crossed;  // Creations that are READ by way of a session that lost them.

  std::unordered_multimap<std::string, Awaiting> awaiting;
  uint64_t awaiting_due_ns = kForever_ns;  // Or earlier; likewise below.
  std::vector<std::string> sealed_ids;     // In this turn, of objects that some call waits for.
  std::vector<NoticeWait> notice_waits;
  uint64_t notice_due_ns = kForever_ns;

  std::deque<Evicting> evicting;
  uint64_t departed_seen = 0;
  uint64_t departed_ns = kForever_ns;  // When to look again what is held still.
  uint64_t departed_pause_ns = 0;

  bool is_handling = false;
  uint64_t last_arrival = 0;
  uint64_t last_ticket = 0;
  std::map<uint64_t, std::unique_ptr<Claiming>> claiming;             // By their own number.
  std::unordered_map<uint64_t, std::pair<uint64_t, size_t>> tickets;  // Whose claim, and of which id.
  std::unordered_map<uint64_t, rpc::Responder> removing;              // By ticket.

  HeldBytes held_bytes;
  uint64_t held_until_ns = 0;
  uint64_t last_fetch = 0;

  runtime::Task<> timer;
  uint64_t timer_ns = kForever_ns;
  bool is_in_timer = false;
};

}  // namespace refract::object
