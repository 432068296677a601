// SPDX-License-Identifier: Apache-2.0
// A link over which memory of the node is held here by pins. It has one owner, who destroys it by retiring
// it: it leaves its runtime shard then, and its memory goes when the last pin was let go of, by whatever
// thread that is. Until then it stays open, because a node honours the pins of open connections only.
//
// Threads: used only by its runtime shard, except let_go().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "refract/client/link/link.h"
#include "refract/memory/pins.h"

namespace refract::client {

class PinningLink : public Link {
 public:
  struct Retire {
    void operator()(PinningLink* link) const noexcept { link->retire(); }
  };

  // By any thread: the link lives as long as one of its pins is held. In a child of the process that
  // connected nothing is let go of.
  void let_go(int pin) noexcept {
    // The page of pins is shared: a child would let go of what its parent holds.
    if (!is_child() && pins_->let_go(pin)) [[unlikely]]
      end_of_a_holder();
  }

 protected:
  using Link::Link;
  ~PinningLink() override = default;

  [[nodiscard]] PinWriter* pins() const noexcept { return pins_; }
  // The transport's; null: there are none.
  void set_pins(PinWriter* pins) noexcept { pins_ = pins; }
  // One that retire_pins() counted has let go.
  void end_of_a_holder() noexcept;

 private:
  // The shard may go after this.
  virtual void leave() noexcept = 0;
  // No more is pinned. How many are held still.
  [[nodiscard]] virtual size_t retire_pins() noexcept { return pins_ == nullptr ? 0 : pins_->retire(); }
  void retire() noexcept;

  PinWriter* pins_ = nullptr;
  // Of pins that were held when it was retired and have not been let go of; less than 0 while their number is
  // not known yet.
  std::atomic<int64_t> holders_left_ = 0;
};

}  // namespace refract::client
