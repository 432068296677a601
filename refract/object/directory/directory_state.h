// SPDX-License-Identifier: Apache-2.0
// What a directory is made of: directory*.cc.
//
// Tasks run for each peer and each id that is wanted; one whose time is over sees it by its number and ends.
// What has happened wakes a task in the next turn only, so that no task runs inside a change of the store.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "refract/cluster/routing.h"
#include "refract/object/calls/object_calls.h"
#include "refract/object/directory/directory.h"
#include "refract/object/directory/directory_types.h"
#include "refract/object/owner/object_sessions.h"
#include "refract/runtime/task.h"

namespace refract::object {

struct Directory::State final : DirectoryTypes, cluster::Peers::Watcher, OutsideHome::Watcher {
  template <typename T = void>
  using Task = runtime::Task<T>;

  explicit State(const Parts& given);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() override;

  // --- directory.cc ---
  void follow(const cluster::Members& members);
  void peer_opened(const std::string& name, rpc::Session& session) noexcept override;
  void peer_closed(const std::string& name, rpc::Session& session) noexcept override;
  void session_closed(rpc::SessionId id);
  void end_stream_of(Peer& peer, rpc::SessionId session);
  void handle(const rpc::IncomingCall& call);
  void hello(const rpc::Responder& from, std::span<const std::byte> body);
  void answer(const rpc::Responder& to, Code code, std::span<const std::byte> head = {},
              std::span<const std::byte> tail = {});
  template <typename Reply>
  void answer(const rpc::Responder& to, const Reply& reply, std::span<const std::byte> tail = {}) {
    answer(to, Code::kOk, std::as_bytes(std::span(&reply, 1)), tail);
  }
  void start(Task<> task);
  [[nodiscard]] Peer& peer_named(const std::string& name);
  [[nodiscard]] Peer* peer_at(MemberIndex index) const noexcept {
    return index == kOutside ? outside.get() : by_index[index];
  }
  [[nodiscard]] MemberIndex home_of(std::string_view id) const noexcept;
  [[nodiscard]] bool is_self(MemberIndex index) const noexcept { return index == self; }
  // By whose ids of new_id() are told; nothing: no member has that memory.
  [[nodiscard]] std::optional<MemberIndex> maker_of(std::string_view id) const noexcept;
  [[nodiscard]] bool is_outside(const Peer& peer) const noexcept { return &peer == outside.get(); }
  [[nodiscard]] static bool is_reached(const Peer& peer) noexcept {
    return peer.session != nullptr || peer.is_open_outside;
  }
  [[nodiscard]] bool is_running(const Peer& peer, uint32_t run) const noexcept {
    return is_reached(peer) && peer.run == run;
  }
  // Holds a session while a task is in it.
  class Use;
  void end_use(rpc::Session& session);
  [[nodiscard]] Task<> let_go(rpc::Session& session);

  // --- directory_streams.cc: what this member says to homes ---
  void start_peer(Peer& peer);
  [[nodiscard]] Task<> run_stream(Peer& peer, uint32_t run);
  void stop_stream(Peer& peer);
  // No session: the home outside.
  [[nodiscard]] Task<Code> say_hello(Peer& peer, rpc::Session* session);
  [[nodiscard]] Task<Code> report(Peer& peer, rpc::Session* session, uint32_t run);
  [[nodiscard]] Task<Code> send_changes(Peer& peer, rpc::Session* session, uint32_t run);
  [[nodiscard]] Task<Code> send_page(Peer& peer, rpc::Session* session, uint32_t run, const Page& page);
  [[nodiscard]] size_t page_room(const rpc::Session* session) const noexcept;
  void take_code(const Change& change, Code code);
  [[nodiscard]] Change tombstone_of(const std::string& id, uint64_t birth) const;
  void say_tombstone(const std::string& id, uint64_t birth);
  // A step of the walk over all that this member has for a home: objects.
  [[nodiscard]] uint64_t gather(MemberIndex home, uint64_t cursor, std::vector<Change>& changes) const;
  // And what is no object: claims and tombstones.
  void gather_others(MemberIndex home, std::vector<Change>& changes) const;
  void report_to_self();
  void say(Change change);
  [[nodiscard]] Code apply(MemberIndex member, const Change& change, bool is_report);
  [[nodiscard]] Task<> bury_later(std::string id, uint64_t birth);

  // --- directory_claims.cc ---
  [[nodiscard]] std::optional<Code> claim(std::string_view id, uint64_t birth, uint64_t ticket);
  [[nodiscard]] bool is_away(const Peer& home) const;
  void settle_claim(uint64_t ticket, Code code);
  void unclaim(std::string_view id, uint64_t birth);
  void ask_claims_of(const Peer& peer);
  [[nodiscard]] bool needs_ticks() const;
  void start_ticks();
  [[nodiscard]] Task<> run_ticks();
  void look_after_claims();
  void look_after_granted();
  // Of tombstones for which there was no room.
  void drop_again();
  void say_tombstones();

  // --- directory_home.cc: what the home does for members ---
  void changes(const rpc::Responder& from, Peer& peer, std::span<const std::byte> body);
  [[nodiscard]] static Code take_change(std::span<const std::byte>& body, Change& change);
  void begin_stream(Peer& peer, rpc::SessionId session);
  void end_report(Peer& peer);
  void bury_losers();
  void look_up(const rpc::Responder& from, const Peer& peer, std::span<const std::byte> body);
  [[nodiscard]] bool drop_old_watchers();
  void note_published(std::string_view id, uint64_t birth);
  void ask(const rpc::Responder& from, std::span<const std::byte> body);

  // --- directory_deletes.cc ---
  [[nodiscard]] static Code take_named(std::span<const std::byte> body, wire::NamedRequest& request,
                                       TakenId& id);
  void remove(const rpc::Responder& from, std::span<const std::byte> body);
  [[nodiscard]] Task<> answer_remove(rpc::Responder from, std::string id, uint64_t birth);
  [[nodiscard]] Task<> remove_for_asker(std::string id, uint64_t birth, uint64_t ticket);
  [[nodiscard]] Task<Removed> remove_at(Peer& home, const std::string& id, uint64_t birth);
  [[nodiscard]] Task<Removed> remove_here(std::string id, uint64_t birth);
  // From now on this birth is refused on all nodes, this one first.
  [[nodiscard]] Code bury(std::string_view id, uint64_t birth);
  [[nodiscard]] bool awaits_word_on(std::string_view id, uint64_t birth) const;
  void order(Peer& peer, Method method, std::string_view id, uint64_t birth);
  void order_drops(Peer& peer);
  void acknowledged(MemberIndex member, const std::string& id, uint64_t birth, uint64_t holders);
  void named(const rpc::Responder& from, Peer& peer, Method method, std::span<const std::byte> body);
  [[nodiscard]] Code follow_order(Method method, std::string_view id, uint64_t birth);
  // This member refuses the birth from now on, and has it no more.
  [[nodiscard]] Code drop_here(std::string_view id, uint64_t birth, uint64_t& holders);
  [[nodiscard]] Task<> run_orders(Peer& peer, uint32_t run);
  [[nodiscard]] Task<Code> send_order(rpc::Session& session, const Order& order);

  // --- directory_outside.cc: a home of all ids that is no member ---
  void home_opened() noexcept override;
  void home_closed() noexcept override;
  void home_ordered(Method method, const std::string& id, uint64_t birth) noexcept override;
  void home_heard(MemberIndex member, const std::string& id, uint64_t birth,
                  uint64_t holders) noexcept override;
  void reach_outside();
  [[nodiscard]] Task<Code> send_outside(Peer& peer, uint32_t run, const Page& page);
  [[nodiscard]] Task<Said> ask_outside(Search& search);
  [[nodiscard]] Task<Removed> remove_outside(std::string id, uint64_t birth);
  [[nodiscard]] Code room_for_tombstone(std::string_view id, uint64_t birth);
  [[nodiscard]] Code await_removal_from(const OutsideHome::Buried& buried, Removal& removal,
                                        uint64_t version);
  [[nodiscard]] Task<> drop_until_done();
  void add_outside_away(std::vector<std::string>& names) const;

  // --- directory_pulls.cc: what clients of this node want ---
  void want(std::string_view id, uint64_t arrival);
  [[nodiscard]] Task<> look_for(std::string id);
  // One look at all nodes: Search::code.
  [[nodiscard]] Task<> look(Search& search);
  [[nodiscard]] Task<> take_found(const HomeTable::Found& found, Search& search);
  [[nodiscard]] Task<> locate_for(std::string id, TakeLocated take);
  [[nodiscard]] Task<Said> ask_home(Search& search);
  [[nodiscard]] Task<Said> ask_home_at(Peer& home, Search& search);
  void end_coming(std::string_view id, uint64_t birth);
  // Whether the home's word may be done without: it must have seen the end of this member's stream.
  [[nodiscard]] bool may_ask_all(const Peer& home) const;
  [[nodiscard]] bool have_sessions_stood(const Search& search) const;
  [[nodiscard]] bool take_tombstones(const std::string& id, std::span<const std::byte> births);
  [[nodiscard]] MemberSet others() const noexcept;
  // Those of search.to_ask that were not asked yet.
  [[nodiscard]] Task<> ask_members(Search& search);
  [[nodiscard]] Task<std::string> ask_member(Peer& peer, Search& search);
  [[nodiscard]] Task<> pull_from(std::vector<MemberIndex> holders, Pull pull, Search& search);
  [[nodiscard]] Task<Code> pull(Peer& holder, Pull pull);
  [[nodiscard]] Task<Code> take_room(const Pull& pull);
  void raise_want(std::string_view id);
  // Whether the home may not know yet what this member has, or had, of the id.
  [[nodiscard]] bool has_unsaid(std::string_view id) const;

  const Parts parts;
  rpc::Server* server = nullptr;
  Asker* asker = nullptr;
  std::vector<Task<>> tasks;
  std::map<const rpc::Session*, std::pair<size_t, bool>> uses;  // How many tasks; whether it has closed.

  std::optional<cluster::Routing> routing;
  uint64_t list_version = 0;  // 0: there is no list yet.
  uint64_t list_digest = 0;
  uint64_t followed_ns = 0;  // Since when.
  uint64_t last_stream = 0;  // That was offered to a caller.
  MemberIndex self = 0;
  std::map<std::string, std::unique_ptr<Peer>> peers;
  std::vector<Peer*> by_index;
  static constexpr MemberIndex kOutside = UINT8_MAX;
  static_assert(cluster::kMembersMax <= kOutside);
  std::unique_ptr<Peer> outside;  // Null: members are homes.
  std::set<Named> undone_drops;   // That it has ordered, and for which there was no room.
  bool is_dropping = false;
  std::unordered_map<uint64_t, Caller> callers;  // By session.

  HomeTable table;
  std::unordered_map<std::string, std::map<MemberIndex, uint64_t>> watchers;  // Members to tell, until when.
  std::vector<Removal*> removals;                                             // In their tasks' frames.

  std::map<uint64_t, Claim> claims;  // By ticket.
  std::map<Named, char> granted;     // What this node makes, or may make.
  bool is_ticking = false;
  bool is_ending = false;

  std::unordered_map<std::string, std::unique_ptr<Want>> wants;
  std::map<std::string, Pulling> pulls;
  std::unordered_map<std::string, Passed> passed;  // Where a copy went last.
  std::deque<std::pair<uint64_t, std::string>> passed_order;
  uint64_t passed_lost_until_ns = 0;  // Not all of them are known.
  Counts counts;
};

class Directory::State::Use {
 public:
  Use(State& state, rpc::Session& session) : state_(state), session_(session) {
    ++state_.uses[&session_].first;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { state_.end_use(session_); }

 private:
  State& state_;
  rpc::Session& session_;
};

}  // namespace refract::object
