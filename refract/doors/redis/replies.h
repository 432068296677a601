// SPDX-License-Identifier: Apache-2.0
// Replies in the order in which they leave: text, and between it long values that stay in the node's memory
// until they are sent, or long messages that other connections have, too.
//
// Threads: one.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "refract/client/client.h"
#include "refract/doors/messages/shared_text.h"

namespace refract::doors::redis {

class Replies {
 public:
  // Values from here on are not copied.
  static constexpr size_t kLongBytes = size_t{16} * 1024;
  // So many of them at most are held in the node's memory; further ones are copied.
  static constexpr size_t kPinnedMax = 16;
  // So many messages at most are shared; further ones are copied.
  static constexpr size_t kSharedMax = 256;

  // What replies are written behind. What was sent of it may still stand in front.
  [[nodiscard]] std::string& text() noexcept { return text_; }
  // Behind the text that is there.
  void append(View value);
  void append(const SharedText& text);
  // All of `other`, which is empty then.
  void append(Replies& other);

  // That are not sent.
  [[nodiscard]] size_t bytes() const noexcept { return text_.size() - text_sent_ + value_bytes_; }
  [[nodiscard]] bool is_empty() const noexcept { return bytes() == 0; }
  // Values that are held in the node's memory.
  [[nodiscard]] size_t pinned() const noexcept { return pinned_; }
  // Memory of this process, but for what is shared.
  [[nodiscard]] size_t own_bytes() const noexcept {
    return text_.capacity() + value_bytes_ - pinned_bytes_ - shared_bytes_;
  }
  [[nodiscard]] size_t shared_bytes() const noexcept { return shared_bytes_; }
  // Lets go of them: what they are becomes text.
  void copy_pinned();

  // The next of them to be sent, at most `bytes_max`, into `pieces`; how many.
  [[nodiscard]] size_t gather(std::span<iovec> pieces, size_t bytes_max) const noexcept;
  // So many bytes have been sent.
  void sent(size_t bytes);

 private:
  struct Value {
    size_t at;  // In the text, which it stands in front of.
    View view = {};
    SharedText shared = {};  // In its place.
    [[nodiscard]] std::string_view text() const noexcept { return shared ? shared.text() : view.text(); }
  };

  void forget_sent_text();

  std::string text_;
  size_t text_sent_ = 0;
  std::vector<Value> values_;  // Mostly none.
  size_t value_sent_ = 0;      // Of the first one.
  size_t value_bytes_ = 0;     // Of all that are not sent.
  size_t pinned_ = 0;
  // Those of `value_bytes_` that are not this process's, or not of this connection alone.
  size_t pinned_bytes_ = 0;
  size_t shared_bytes_ = 0;
};

}  // namespace refract::doors::redis
