// SPDX-License-Identifier: Apache-2.0
// What a directory has of other members, and of those that wait for it: the types of directory_state.h.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "refract/object/directory/directory_wire.h"
#include "refract/object/directory/home_table.h"
#include "refract/object/owner/elsewhere.h"
#include "refract/object/transfer/arrivals.h"
#include "refract/object/transfer/object_transfer.h"
#include "refract/object/transfer/path_memory.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::object {

// Not bytes_of(), which takes a string for a struct.
[[nodiscard]] inline std::span<const std::byte> text_bytes(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}
template <typename T>
  requires std::is_trivially_copyable_v<T> && (!std::is_convertible_v<const T&, std::string_view>)
[[nodiscard]] std::span<const std::byte> struct_bytes(const T& value) noexcept {
  return std::as_bytes(std::span(&value, 1));
}

// Lets one task wait until something has happened, or a moment has come.
class Signal {
 public:
  explicit Signal(runtime::Shard& shard) noexcept : shard_(shard) {}
  void raise() noexcept {
    is_raised_ = true;
    if (const runtime::Token waiter = std::exchange(waiter_, 0); waiter != 0) {
      (void)shard_.ops().complete(waiter, {.code = Code::kOk});
    }
  }
  // Ends in a turn of its own.
  [[nodiscard]] runtime::Task<> wait_until(uint64_t moment_ns);

 private:
  runtime::Shard& shard_;
  runtime::Token waiter_ = 0;
  bool is_raised_ = false;
};

struct DirectoryTypes {
  using Method = wire::DirectoryMethod;
  using MemberSet = HomeTable::MemberSet;
  using Named = HomeTable::Named;

  // Beyond it no more deletes are taken: some member does not acknowledge.
  static constexpr size_t kTombstonesMax = 65'536;

  // In place of a member's: the home outside of the list.
  static constexpr MemberIndex kOutside = UINT8_MAX;
  static_assert(cluster::kMembersMax <= kOutside);

  // Of a stream.
  struct Change {
    wire::ChangeKind kind{};
    std::string id;
    uint64_t birth = 0;
    ObjectParts parts;
    uint64_t ticket = 0;     // Of a claim, or a release: whose answer it is.
    CopiesWord copies = {};  // Of what is held.
  };
  // What the home says to a member. Drops go first; of one birth each order is given when the one before it
  // has been followed.
  struct Order {
    Method method{};
    std::string id;
    uint64_t birth = 0;
    bool may_pull = false;  // kBind.
    auto operator<=>(const Order&) const = default;
  };
  struct Peer {
    Peer(runtime::Shard& shard, std::string its_name)
        : name(std::move(its_name)), changed(shard), ordered(shard) {}
    const std::string name;
    std::optional<MemberIndex> index;  // Nothing: it is in the list no more.
    rpc::Session* session = nullptr;   // To it.
    bool is_open_outside = false;      // It is the home outside, and can be spoken to.
    uint32_t run = 0;                  // Of the tasks that use that session, under this list.
    uint64_t hello_ns = 0;             // What its last answer to a hello took.
    bool is_agreed = false;            // It has taken our hello,
    uint64_t stream = 0;               // as the one of this number,
    bool collects = false;             // which takes changes,
    bool has_reported = false;         // and, behind the report, claims.
    bool was_reported_to = false;      // Under this list, in whatever stream.
    uint64_t begun = 0;                // So many streams have.
    uint64_t ended_ns = 0;             // When the last stream did.
    // The stream that stands, by this member's own count. 0: none.
    [[nodiscard]] uint64_t stream_now() const noexcept { return collects ? begun : 0; }
    std::deque<Change> changes;
    std::vector<Change> sending;  // Of the page that is under way.
    Signal changed;
    std::set<Order> orders;
    Signal ordered;
    PathMemory path;  // What pulls from it have taught.
    // As a caller:
    [[nodiscard]] bool is_outside() const noexcept { return index == kOutside; }
    [[nodiscard]] bool is_reached() const noexcept { return session != nullptr || is_open_outside; }
    rpc::SessionId caller{};  // Where its stream comes from; none: it has none.
    uint64_t caller_stream = 0;
    std::array<uint64_t, 2> identity{};  // Of its memory, as it said last.
    uint64_t begun_ns = 0;               // When its last stream began.
    uint64_t grace_until_ns = 0;         // Without a stream, its bound copies are counted on until then.
    size_t copies_ordered = 0;           // Copies that it was told to get.
  };
  struct Caller {
    Peer* peer = nullptr;  // Nothing: it has not said who it is.
    bool is_agreed = false;
    uint64_t stream = 0;     // That it may begin,
    bool has_begun = false;  // or has begun.
    std::array<uint64_t, 2> identity{};
  };
  struct Claim {
    std::string id;
    uint64_t birth = 0;
    uint64_t until_ns = 0;
    bool is_asked = false;  // It stands in a stream.
  };
  struct Want {
    explicit Want(runtime::Shard& shard) : news(shard) {}
    Signal news;
    uint64_t arrival = 0;  // The last one.
    PullWish wish;
  };
  struct Removal {
    std::string id;
    uint64_t birth = 0;
    uint64_t holders = 0;
    MemberSet awaited = {};  // By the home outside.
    runtime::Token waiter = 0;
  };
  // What a home said of an id. Nothing: it did not answer.
  using Said = std::optional<HomeTable::Found>;
  // An attempt to find one object for clients of this node.
  struct Search {
    const std::string& id;
    bool pulls = true;  // Else it is located only.
    PullWish wish = {};
    bool tells_later = false;         // The home tells when it comes.
    MemberSet to_ask = {};            // Members that may have it,
    MemberSet asked = {};             // and were asked.
    std::vector<uint32_t> runs = {};  // Of the sessions to all members, when it began.
    bool by_home = true;              // The home's word leads it.
    bool is_open = false;             // Some of them may have it all the same.
    uint64_t stream = 0;              // In which the home was asked; 0: in none.
    Code code = Code::kNotFound;      // kOk: it is here. kNoSpace: there is no room for it.
    Elsewhere::Located located = {};
  };
  // A page of a stream.
  struct Page {
    std::vector<Change> changes;
    bool is_report = false;
    bool is_last = false;
  };
  struct Pull {
    const std::string& id;
    uint64_t birth = 0;
    ObjectParts parts;
    PullWish wish = {};
    uint64_t stream = 0;          // Of the search.
    size_t forebears = 0;         // Of its givers, the first: the object is coming to them, too.
    uint64_t piece_bytes = kMiB;  // At most.
  };
  // The part of a broadcast's plan that one member follows.
  struct Course {
    uint64_t list_version = 0;
    uint64_t plan = 0;
    uint64_t birth = 0;
    uint64_t piece_bytes = 0;
    uint64_t until_ns = 0;  // Behind it no other attempt begins.
    std::vector<std::string>
        forebears;     // To which it comes, too; that from which it comes here is the first.
    std::string root;  // Has it. None: this member should have it.
  };
  // What is being pulled.
  struct Pulling {
    uint64_t birth = 0;  // 0: it was deleted, and is not published any more.
    ObjectParts parts;
    ObjectTransfer* transfer = nullptr;  // Null: it is not under way.
    Arrivals::Entry* arrival = nullptr;  // Null: it is given to no one.
  };
  using KeptCopies = Elsewhere::KeptCopies;
  using TakeCopies = Elsewhere::TakeCopies;
  // So many copies a client wants.
  struct CopiesWish {
    std::string id;
    uint64_t birth = 0;
    uint8_t wanted = 0;
    uint64_t until_ns = 0;
  };
  // Of a birth with too few copies: members by moments. A member is in one of both.
  struct Placing {
    std::map<MemberIndex, uint64_t> ordered;  // Told to get one, and believed until then.
    std::map<MemberIndex, uint64_t> aside;    // Not asked again before.
  };
  // A copy that this member was told to get.
  struct Binding {
    uint64_t birth = 0;
    CopiesWord word;
    bool is_running = false;
  };
  // To which member a copy went.
  struct Passed {
    std::string to;
    uint64_t at_ns = 0;
  };
};

}  // namespace refract::object
