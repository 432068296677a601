// SPDX-License-Identifier: Apache-2.0
// What one thread has of a node's objects: the link to their shard, what becomes of an operation when the
// server or the node behind it goes, and how the next one is found. The number of that shard is the number of
// shards for keys, which the node's first shard says.
//
// Threads: used only by its runtime shard. Destroyed in a turn after that in which the last operation ended.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/report.h"
#include "refract/client/objects/object_link.h"
#include "refract/client/paths/peers.h"
#include "refract/object/layout/object_wire.h"
#include "refract/runtime/task.h"

namespace refract::client {

class ObjectPeer {
 public:
  // The peers outlive it. Nothing is connected yet.
  explicit ObjectPeer(Peers& peers);
  ObjectPeer(const ObjectPeer&) = delete;
  ObjectPeer& operator=(const ObjectPeer&) = delete;
  ~ObjectPeer() = default;

  // Null: never reached.
  [[nodiscard]] ObjectLink* link() const noexcept { return link_.get(); }
  // The link whose memory reads may use; looks after the node every now and then. Null: there is none.
  [[nodiscard]] ObjectLink* reading() noexcept {
    if (link_ == nullptr || link_->reader() == nullptr) [[unlikely]]
      return nullptr;
    if (++reads_ % kReadsPerLook == 0 || link_->is_node_stopping()) [[unlikely]]
      look_around();
    return link_->reader() != nullptr ? link_.get() : nullptr;
  }

  // How an operation ended. `was_lost`: an attempt was sent over a link that broke, and may have been
  // executed.
  struct Outcome {
    Code code = Code::kUnavailable;
    bool was_lost = false;
  };
  // `ask(ObjectLink&) -> Task<Code>`, repeated over the next link or server where it says that nothing was
  // sent (kUnavailable) or, if it `may_repeat`, that it lost its link (kIndeterminate).
  template <typename Ask>
  [[nodiscard]] runtime::Task<Outcome> drive(Ask ask, bool may_repeat = true, Patience patience = {}) {
    Outcome outcome;
    for (;;) {
      if (peers_.is_child()) co_return Outcome{.code = Code::kForked};
      if (link_ != nullptr && link_->state() == Link::State::kUp) {
        ObjectLink& link = *link_;
        const Use use(link);
        if (patience.begun_ns == 0) patience.begun_ns = shard().now_ns();
        outcome.code = co_await ask(link);
        const bool is_lost = outcome.code == Code::kIndeterminate && may_repeat && link.is_session_closed();
        if (outcome.code != Code::kUnavailable && !is_lost) {
          note(link, outcome.code);
          co_return outcome;
        }
        outcome.was_lost |= is_lost;
      }
      const bool again = co_await await_server(patience);
      if (again) continue;
      outcome.code = outcome.was_lost ? Code::kIndeterminate : unreached();
      co_return outcome;
    }
  }
  // Waits for the next server, or connects to the next node. False: none came in time, and trouble() says
  // more.
  [[nodiscard]] runtime::Task<bool> await_server(Patience& patience);
  // False: what there is to be mapped is mapped, for some time already.
  [[nodiscard]] runtime::Task<bool> await_growth(ObjectLink& link, Patience& patience);

  // What it means that await_server() failed: that the node has no objects, or that it is not there.
  [[nodiscard]] Code unreached() const noexcept {
    return is_without_objects_ ? Code::kUnsupported : Code::kUnavailable;
  }

  [[nodiscard]] const Report& trouble() const noexcept { return trouble_; }
  void set_trouble(Report trouble) { trouble_ = std::move(trouble); }
  // Of the last remove: the nodes that it has not reached.
  [[nodiscard]] const std::vector<std::string>& missed() const noexcept { return missed_; }
  void set_missed(std::vector<std::string> missed) { missed_ = std::move(missed); }
  [[nodiscard]] uint32_t copies_made() const noexcept { return copies_made_; }
  void set_copies_made(uint32_t copies) noexcept { copies_made_ = copies; }
  // For object_birth.h.
  [[nodiscard]] uint64_t new_claim() noexcept;
  // Fills it with the node's identity and chance. REQUIRES: a node was reached.
  [[nodiscard]] std::string new_id(size_t bytes);

  [[nodiscard]] Peers& peers() noexcept { return peers_; }
  [[nodiscard]] runtime::Shard& shard() const noexcept { return peers_.shard(); }
  [[nodiscard]] uint64_t timeout_ns() const noexcept { return peers_.settings().options.timeout_ns; }
  [[nodiscard]] uint64_t messages_sent() const noexcept {
    return messages_before_ + (link_ == nullptr ? 0 : link_->messages_sent());
  }

 private:
  // A killed keeper sends no word; a look costs half a microsecond.
  static constexpr uint64_t kReadsPerLook = 256;

  // An operation inside a link, which must not go before it.
  class Use {
   public:
    explicit Use(ObjectLink& link) noexcept : link_(link) { ++link_.operations; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { --link_.operations; }

   private:
    ObjectLink& link_;
  };

  [[gnu::noinline]] void look_around() noexcept;
  [[nodiscard]] runtime::Task<bool> establish(uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<bool> connect(uint64_t deadline_ns);
  void put_aside() noexcept;
  void note(const ObjectLink& link, Code code);

  Peers& peers_;
  ObjectLink::Owned link_;
  std::vector<ObjectLink::Owned> ended_;  // Some operation may still be on its way out of them.
  bool is_connecting_ = false;
  bool is_without_objects_ = false;
  uint64_t reads_ = 0;
  uint64_t messages_before_ = 0;  // Of earlier links.
  Report trouble_{Code::kOk, "", ""};
  std::vector<std::string> missed_;
  uint32_t copies_made_ = 0;
  Prng claims_;  // Tells nothing else, so that none can be guessed.
  Prng prng_;
};

}  // namespace refract::client
