// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/pending.h"

#include <utility>

#include "refract/doors/exec/multi.h"
#include "refract/doors/redis/session.h"

namespace refract::doors::redis {

namespace {

// What a command that is over keeps for the next one.
constexpr size_t kSpareBytes = 1024;

}  // namespace

void DropPending::operator()(Pending* command) const noexcept {
  delete command;
}

Code PendingCall::begin(Store& store, Pending& command) {
  command_ = &command;
  return OperationCall::begin(*store.client, command.words[1], command.operation);
}

void PendingCall::over(const Operated& outcome) noexcept {
  command_->session->was_told(*command_, outcome);
}

void Pending::drop_words() {
  words.clear();
  bytes.clear();
  long_words.clear();
  taken.reset();
  if (bytes.capacity() > kSpareBytes) bytes.shrink_to_fit();
  if (words.capacity() > kSpareBytes / sizeof(std::string_view)) words.shrink_to_fit();
  arguments.clear();
  if (arguments.capacity() > kSpareBytes) arguments.shrink_to_fit();
}

void Pending::reset() {
  drop_words();
  row = nullptr;
  tallies = nullptr;
  words_bytes = 0;
  if (answer.own_bytes() > kSpareBytes) answer = {};
  begun_ns = 0;
  is_by_itself = came_back = has_begun = is_over = breaks = is_mute = false;
}

// Long words stay where they are, in their order among the others.
void Pending::take(const std::vector<std::string_view>& came, std::vector<LongWord> long_ones) {
  long_words = std::move(long_ones);
  auto next = long_words.begin();
  const auto is_long = [&](std::string_view word) {
    return next != long_words.end() && word.data() == next->text().data();
  };
  size_t short_bytes = 0;
  words_bytes = sizeof(Pending) + came.size() * sizeof(std::string_view);
  for (const std::string_view word : came) {
    words_bytes += word.size();
    if (is_long(word)) {
      ++next;
    } else {
      short_bytes += word.size();
    }
  }
  bytes.reserve(short_bytes);
  words.reserve(came.size());
  next = long_words.begin();
  for (const std::string_view word : came) {
    if (is_long(word)) {
      words.push_back(word);
      ++next;
      continue;
    }
    const size_t begin = bytes.size();
    bytes += word;
    words.emplace_back(bytes.data() + begin, word.size());
  }
}

}  // namespace refract::doors::redis
