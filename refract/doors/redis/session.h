// SPDX-License-Identifier: Apache-2.0
// One connection of a Redis client: its requests in order, their replies in the same order, whatever ends
// first.
//
// Threads: that of its door.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "refract/doors/messages/subscriber.h"
#include "refract/doors/redis/commands.h"
#include "refract/doors/redis/long_word.h"
#include "refract/doors/redis/pending.h"
#include "refract/doors/redis/replies.h"
#include "refract/doors/redis/reply.h"
#include "refract/doors/redis/request_parser.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

class Session final : public Subscriber {
 public:
  static constexpr size_t kPendingMax = 1024;
  // Of writes that go by themselves.
  static constexpr size_t kLoneWritesMax = 64;
  // While its requests and replies have so much, no further request is taken, and nothing is read for it.
  static constexpr size_t kUnsentMax = size_t{8} << 20;
  // Of one that has not proven itself: then it ends.
  static constexpr size_t kUnsentMaxUnproven = 4096;
  // The same of its requests: AUTH and HELLO need less.
  static constexpr size_t kHeldMaxUnproven = size_t{64} * 1024;

  // What has the connection.
  class Listener {
   public:
    // Replies are there that were not before. Inside of a poll.
    virtual void has_replies() noexcept = 0;
    // The connection is to end now: the session is told to forget(). Not called inside of take().
    virtual void end_now() noexcept = 0;
    [[nodiscard]] virtual int descriptor() const noexcept = 0;

   protected:
    ~Listener() = default;
  };

  // All outlive it.
  Session(Store& store, Listener& listener, std::string peer, std::string local);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // REQUIRES: is_idle().
  ~Session();

  // `came` was received behind all before. What is no whole request, or has no turn yet, is kept.
  void take(std::string_view came);
  // What was kept and has its turn now.
  void take_kept();
  // Where what comes next is to be received: a long word's memory. Empty: anywhere, for take().
  [[nodiscard]] std::span<char> long_room() const noexcept;
  // So many bytes of it were.
  void long_room_filled(size_t bytes);

  // Replies that are ready to be sent.
  [[nodiscard]] Replies& output() noexcept { return output_; }
  // They wait for a client that does not read: what they hold of the node's memory is copied, and no further
  // request is taken until they are sent.
  void copy_pinned();
  // What was there is taken up again once some of it is over, or sent.
  [[nodiscard]] bool is_full() const noexcept {
    const bool has_room = pending_.size() < kPendingMax && output_.bytes() + pending_bytes_ < kUnsentMax;
    return !has_room || is_stalled_ || is_held_back_ || is_held_up_;
  }
  // Memory of its requests, replies and subscriptions.
  [[nodiscard]] size_t held_bytes() const noexcept;
  // More messages wait for it than may wait for long. Looks at the time, so it may be too slow then.
  [[nodiscard]] bool has_backlog() noexcept;
  // There is a node now: what has waited for one begins.
  void node_has_come() { go_on(); }
  // A pause of commands is over: what it has held up begins.
  void resume();
  // Some of output() has been sent: what has waited for that begins.
  void output_was_sent() {
    is_stalled_ = is_stalled_ && !output_.is_empty();
    if (first_waiting_ < pending_.size()) go_on();
  }
  // The connection ends once output() is sent: the client has asked for it, or cannot be understood.
  [[nodiscard]] bool is_ending() const noexcept { return is_ending_ && (pending_.empty() || has_left_); }
  [[nodiscard]] bool takes_requests() const noexcept { return !is_ending_; }
  // Nothing of it is under way.
  [[nodiscard]] bool is_idle() const noexcept { return begun_ == 0; }
  // The connection is over: what has not begun does not begin, and what comes of the rest is not told.
  void leave() noexcept;
  // The same, and the client is gone: what it has sent and was to get goes, but for what is under way; and
  // its subscriptions, or some of them. Not called inside of take().
  void forget() noexcept;

  // For all of the store's, once a turn: what waited for writes that were told begins, and replies are there.
  static void look_at_told(Store& store);
  // What became of one of its operations.
  void was_told(Pending& command, const Operated& outcome) noexcept;
  // Of its operations. No other connection of the thread has it.
  [[nodiscard]] uint32_t tag() const noexcept { return static_cast<uint32_t>(1 + id_ % UINT32_MAX); }

  // For commands.
  void end() noexcept { is_ending_ = true; }
  // The same behind the reply of this one, which runs alone: those behind it do not begin.
  void end_behind(const Pending& command);
  // Ends it from outside: what is under way is not replied to.
  void kill() noexcept { listener_.end_now(); }
  [[nodiscard]] Protocol protocol() const noexcept { return protocol_; }
  void speak(Protocol protocol) noexcept { protocol_ = protocol; }
  [[nodiscard]] uint64_t id() const noexcept { return id_; }
  [[nodiscard]] bool has_proven() const noexcept { return has_proven_; }
  void prove() noexcept;
  void forget_proof() noexcept;
  // It has never proven itself.
  [[nodiscard]] bool is_stranger() const noexcept { return is_stranger_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  void take_name(std::string_view name) { name_ = name; }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  [[nodiscard]] const std::string& local() const noexcept { return local_; }
  [[nodiscard]] bool has_left() const noexcept { return has_left_; }
  // Which replies the client wants. kNotNext: all but the next command's.
  enum class Replying : uint8_t { kOn, kOff, kNotNext };
  void set_replying(Replying wanted) noexcept;
  // Replies are wanted again, but for that of the command which is taken now.
  void reset_replying() noexcept {
    is_off_ = skips_next_ = false;
    has_no_reply_ = skips_;
  }
  // It ends behind all others where memory is short.
  [[nodiscard]] bool is_kept_longest() const noexcept { return is_kept_longest_; }
  void keep_longest(bool is_so) noexcept { is_kept_longest_ = is_so; }
  // Its command waits for commands of others, which must not wait for it.
  [[nodiscard]] bool waits_for_others() const noexcept { return waits_for_others_; }
  void wait_for_others(bool is_so) noexcept { waits_for_others_ = is_so; }

  // Null: it has called no command of transactions.
  [[nodiscard]] Multi* multi() const noexcept { return multi_.get(); }
  [[nodiscard]] Multi& make_multi();

  // For people.
  [[nodiscard]] const Row* last_row() const noexcept { return last_row_; }  // Null: none was called.
  [[nodiscard]] uint64_t now_ns() const noexcept { return store_.shard.now_ns(); }
  [[nodiscard]] uint64_t begun_ns() const noexcept { return begun_ns_; }
  [[nodiscard]] uint64_t last_heard_ns() const noexcept { return last_heard_ns_; }
  [[nodiscard]] size_t kept_bytes() const noexcept { return kept_.size(); }
  [[nodiscard]] size_t kept_room() const noexcept { return kept_.capacity() - kept_.size(); }
  [[nodiscard]] size_t pending_bytes() const noexcept { return pending_bytes_; }
  [[nodiscard]] const Replies& output() const noexcept { return output_; }
  [[nodiscard]] int descriptor() const noexcept { return listener_.descriptor(); }

 private:
  void hear(const Message& message) noexcept override;
  [[nodiscard]] size_t take_requests(std::string_view bytes);
  void begin_long_word(std::string_view request);
  void fill_long_word();
  void take_request(const std::vector<std::string_view>& words);
  void refuse(std::string_view why);
  struct LinedUp {
    CommandTallies* tallies;  // Null: its end is not counted.
    bool is_held;             // By a pause.
  };
  void line_up(const Row& row, const std::vector<std::string_view>& words, const LinedUp& how);
  [[nodiscard]] CommandTallies& tallies_of(const Row& row) const noexcept {
    return store_.common.command_counts.of(store_.place, row);
  }
  // One that has few words takes no time, unless such are wanted, too.
  [[nodiscard]] bool is_timed(Words words) const noexcept {
    constexpr size_t kFewWords = 64;
    return store_.times_all || words.size() > kFewWords;
  }
  [[nodiscard]] bool run_at_once(const Row& row, Call& call);
  void note_time(const Row& row, Words words, uint64_t begun_ns);
  void note_end(Pending& command);
  void go_on();
  void tell() noexcept;
  [[nodiscard]] bool has_node_for(const Row& row) const noexcept;
  [[nodiscard]] bool may_begin(const Pending& command) const;
  // False: it has to go by itself, which may not be now.
  [[nodiscard]] bool begin(Pending& command);
  [[nodiscard]] bool begin_operation(Pending& command);
  void begin_again(Pending& command);
  void hold(const Pending& command);
  void release(const Pending& command);
  void end(Pending& command);
  void is_over(Pending& command);
  [[nodiscard]] Pending& add_pending();
  [[nodiscard]] static runtime::Task<> run(Session& session, Pending& command);
  void give_replies();

  Store& store_;
  Listener& listener_;
  RequestParser parser_;
  std::string kept_;                  // The beginning of a request that is not whole, or has no turn yet.
  std::vector<LongWord> long_words_;  // Of that request.
  bool has_open_word_ = false;        // The last of them is not whole.
  std::deque<OwnPending> pending_;    // In the order in which they came.
  size_t first_waiting_ = 0;          // In `pending_`: those before have begun.
  size_t pending_bytes_ = 0;          // Of their words, and of replies that are not in output_.
  size_t begun_ = 0;                  // Under way.
  // Of these:
  size_t reads_ = 0;
  size_t alls_ = 0;
  size_t operations_ = 0;   // That hold nothing up but reads: the owner keeps their order.
  size_t lone_writes_ = 0;  // That go by themselves.
  std::unordered_set<std::string_view> held_keys_;  // Of these, and of operations that may come back.
  bool is_told_ = false;                            // It is among the store's.
  Replies output_;
  bool is_stalled_ = false;
  bool has_stopped_ = false;   // Requests are not taken: there was no room for more.
  bool is_held_back_ = false;  // Until the last one has begun, which changes what it is subscribed to.
  bool is_held_up_ = false;    // By a pause.
  Protocol protocol_ = Protocol::kResp2;
  bool has_proven_;
  bool is_stranger_;
  bool is_ending_ = false;
  bool has_left_ = false;
  bool is_going_on_ = false;
  bool is_off_ = false;        // No reply is wanted,
  bool skips_ = false;         // or not that of the command which is taken now,
  bool skips_next_ = false;    // or not that of the next one.
  bool has_no_reply_ = false;  // One of these.
  bool is_kept_longest_ = false;
  bool waits_for_others_ = false;
  uint64_t begun_ns_;
  uint64_t last_heard_ns_;
  const Row* last_row_ = nullptr;
  uint64_t id_;
  std::unique_ptr<Multi> multi_;
  std::string name_;
  std::string peer_;
  std::string local_;
};

}  // namespace refract::doors::redis
