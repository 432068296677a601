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

struct Directory::State final : DirectoryTypes, cluster::Peers::Watcher {
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
  [[nodiscard]] Peer* peer_at(MemberIndex index) const noexcept;
  [[nodiscard]] MemberIndex home_of(std::string_view id) const noexcept;
  [[nodiscard]] bool is_self(MemberIndex index) const noexcept { return index == self; }
  // By whose ids of new_id() are told; nothing: no member has that memory.
  [[nodiscard]] std::optional<MemberIndex> maker_of(std::string_view id) const noexcept;
  [[nodiscard]] static bool is_running(const Peer& peer, uint32_t run) noexcept;
  class Use;
  struct Outside;
  struct Ranker;
  struct Broadcaster;
  void end_use(rpc::Session& session);
  [[nodiscard]] Task<> let_go(rpc::Session& session);

  // --- directory_streams.cc: what this member says to homes ---
  void start_peer(Peer& peer);
  [[nodiscard]] Task<> run_stream(Peer& peer, uint32_t run);
  void stop_stream(Peer& peer);
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
  [[nodiscard]] Code apply_alone(MemberIndex member, const Change& change, bool is_report);
  [[nodiscard]] Task<> bury_later(std::string id, uint64_t birth);

  // --- directory_claims.cc ---
  [[nodiscard]] std::optional<Code> claim(std::string_view id, uint64_t birth, uint64_t ticket);
  [[nodiscard]] bool is_leaving(std::string_view id) const;
  [[nodiscard]] bool is_away(const Peer& home) const;
  void settle_claim(uint64_t ticket, Code code);
  void unclaim(std::string_view id, uint64_t birth);
  void ask_claims_of(const Peer& peer);
  [[nodiscard]] bool needs_ticks() const;
  void start_ticks();
  [[nodiscard]] Task<> run_ticks();
  void look_after_claims();
  void look_after_granted();
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
  void order(Peer& peer, Method method, std::string_view id, uint64_t birth, bool may_pull = false);
  void order_drops(Peer& peer);
  void acknowledged(MemberIndex member, const std::string& id, uint64_t birth, uint64_t holders);
  void named(const rpc::Responder& from, Peer& peer, Method method, std::span<const std::byte> body);
  [[nodiscard]] Code follow_order(Method method, std::string_view id, uint64_t birth);
  [[nodiscard]] Code drop_here(std::string_view id, uint64_t birth, uint64_t& holders);
  [[nodiscard]] Task<> run_orders(Peer& peer, uint32_t run);
  [[nodiscard]] Task<Code> send_order(rpc::Session& session, const Order& order);

  // --- directory_copies.cc: bound copies, at the member whose client wants them and at the home ---
  [[nodiscard]] Task<> set_copies_for_asker(CopiesWish wish, TakeCopies take_kept);
  [[nodiscard]] Task<KeptCopies> ask_copies_of(Peer& home, const CopiesWish& wish);
  void copies(const rpc::Responder& from, std::span<const std::byte> body);
  [[nodiscard]] KeptCopies copies_here(const std::string& id, uint64_t birth, uint8_t wanted);
  void place(const std::string& id, uint64_t birth, bool is_awaited = false);
  [[nodiscard]] std::vector<MemberIndex> by_place(std::string_view id) const;
  [[nodiscard]] MemberSet present() const;
  [[nodiscard]] bool are_all_heard() const;
  [[nodiscard]] bool order_copies(const HomeTable::Bound& bound, const Named& named, size_t beyond,
                                  bool is_awaited);
  [[nodiscard]] bool can_be_ordered(MemberIndex member) const;
  void order_bind(MemberIndex member, const Named& named, bool may_pull);
  void end_order(Placing& placing, MemberIndex member);
  void set_aside(Placing& placing, MemberIndex member);
  void end_placing(const Named& named);
  void end_placings_of(MemberIndex member);
  void placed(MemberIndex member, const Named& named, bool is_there);
  void bind_answered(MemberIndex member, const Named& named, Code code);
  [[nodiscard]] Code release_at_home(MemberIndex member, const Change& change);
  void start_care();
  void care_again();
  [[nodiscard]] Task<> care_for_copies();
  [[nodiscard]] Task<> look_at_wishes();
  [[nodiscard]] uint64_t next_grace_end_ns() const;
  [[nodiscard]] Task<Code> send_bind(rpc::Session& session, MemberIndex member, const Order& order);

  // --- directory_bound.cc: bound copies, at the member that has them ---
  void bind(const rpc::Responder& from, const Peer& peer, std::span<const std::byte> body);
  [[nodiscard]] Code take_bind(const Named& named, CopiesWord word, bool may_pull);
  [[nodiscard]] Task<> bind_here(Named named, bool may_pull);
  void bring_copies();
  void settle_binding(const std::string& id);
  // Of a pull that publishes it now.
  [[nodiscard]] CopiesWord word_for(const std::string& id, uint64_t birth) const;
  void say_held(const std::string& id, const Object& object);
  void release_some(uint64_t bytes);
  [[nodiscard]] Task<> ask_to_release(uint64_t bytes);
  void released(const Change& change, Code code);
  void end_releases(MemberIndex home);

  // --- directory_pulls.cc: what clients of this node want ---
  void want(std::string_view id, uint64_t arrival, const PullWish& wish);
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
  [[nodiscard]] Task<Code> bring(const Pull& pull, Creation made, Arrivals::Entry* arrival, Sources sources);
  [[nodiscard]] Code judge_wanted(const Pull& pull);
  [[nodiscard]] Task<Code> pull(std::vector<Peer*> givers, Pull pull);
  void note_transfer(const TransferOutcome& outcome);
  void raise_want(std::string_view id);
  // Whether the home may not know yet what this member has, or had, of the id.
  [[nodiscard]] bool has_unsaid(std::string_view id) const;
  // Until it knows. False: it takes too long.
  [[nodiscard]] Task<bool> all_is_said(const std::string& id);

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
  std::unique_ptr<Outside> outside;              // A home of all ids; null: members are homes.
  std::unordered_map<uint64_t, Caller> callers;  // By session.
  std::unique_ptr<Ranker> ranker;
  std::unique_ptr<Broadcaster> broadcaster;
  HomeTable table;
  std::unordered_map<std::string, std::map<MemberIndex, uint64_t>> watchers;  // Members to tell, until when.
  std::vector<Removal*> removals;                                             // In their tasks' frames.

  std::map<uint64_t, Claim> claims;  // By ticket.
  std::map<Named, char> granted;     // What this node makes, or may make.
  bool is_ticking = false;
  bool is_ending = false;
  std::unordered_map<std::string, std::unique_ptr<Want>> wants;
  PullRoom pull_room;
  std::map<std::string, Pulling> pulls;
  std::unordered_map<std::string, Passed> passed;  // Where a copy went last.
  std::deque<std::pair<uint64_t, std::string>> passed_order;
  uint64_t passed_lost_until_ns = 0;  // Not all of them are known.
  std::map<Named, Placing> placings;  // Births of which some member was told to get a copy, or would not.
  std::set<Named> short_ones;         // Births with too few copies.
  bool is_caring = false;
  bool looks_at_all = false;  // At all births with a wish, not at the short ones alone.
  Signal care;
  std::map<std::string, Binding> binding;  // What this member is to have, and does not have yet.
  std::deque<std::string> to_bring;
  size_t brought_now = 0;
  std::map<Named, uint64_t> releasing;  // Asked in streams that stand, by which ticket.
  uint64_t last_release = 0;
  uint64_t released_ns = 0;
  Counts counts;
};

}  // namespace refract::object
