// SPDX-License-Identifier: Apache-2.0
// CLIENT: of the own connection, and of those of all threads.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refract/doors/admin/client_line.h"
#include "refract/doors/admin/handlers.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

constexpr std::string_view kBusy = "ERR too much is under way in this thread of the door";

// Of TYPE: those that there are in Redis. Here there are no others than these two. False: it is unknown.
bool take_type(ClientFilter& filter, std::string_view type) {
  const bool is_pubsub = is(type, "pubsub");
  if (is_pubsub || is(type, "normal")) {
    filter.is_none |= filter.is_subscribed.has_value() && *filter.is_subscribed != is_pubsub;
    filter.is_subscribed = is_pubsub;
    return true;
  }
  filter.is_none = true;
  return is(type, "master") || is(type, "slave") || is(type, "replica");
}
std::string unknown_type(std::string_view type) {
  return fmt::format("ERR Unknown client type '{}'", type.substr(0, 128));
}

struct Listed {
  uint64_t id = 0;
  std::string line;
};

// All connections, by threads: each writes down its own.
class Listing final : public Errand {
 public:
  // `only`: those of these; empty: all that the filter means.
  Listing(size_t threads, std::vector<uint64_t> only, ClientFilter filter)
      : only_(std::move(only)), filter_(std::move(filter)), by_thread_(threads) {}

  bool run(size_t place, Lines& lines) override {
    std::vector<Listed>& mine = by_thread_[place];
    lines.visit([&](Session& session) {
      const bool is_wanted = only_.empty() || std::ranges::find(only_, session.id()) != only_.end();
      if (is_wanted && filter_.means(session))
        mine.push_back({session.id(), client_line(session, session.now_ns())});
    });
    return true;
  }

  // In the order in which they came; or as they were asked for.
  [[nodiscard]] std::string text() {
    std::vector<Listed> all;
    for (std::vector<Listed>& some : by_thread_) {
      all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    }
    std::ranges::sort(all, {}, &Listed::id);
    std::string text;
    if (only_.empty()) {
      for (const Listed& one : all) text += one.line;
    }
    for (const uint64_t id : only_) {
      const auto found = std::ranges::lower_bound(all, id, {}, &Listed::id);
      if (found != all.end() && found->id == id) text += found->line;
    }
    return text;
  }

 private:
  const std::vector<uint64_t> only_;
  const ClientFilter filter_;
  std::vector<std::vector<Listed>> by_thread_;
};

// Ends those that are meant, and is over in a thread once nothing of them is under way there.
class Killing final : public Errand {
 public:
  Killing(size_t threads, ClientFilter filter, const Session& asker, bool skips_asker)
      : filter_(std::move(filter)), asker_(asker), skips_asker_(skips_asker), by_thread_(threads) {}

  bool run(size_t place, Lines& lines) override {
    Mine& mine = by_thread_[place];
    if (!std::exchange(mine.has_begun, true)) begin(mine, lines);
    bool is_over = true;
    lines.visit_ended([&](Session& session) {
      const bool is_mine = std::ranges::binary_search(mine.killed, session.id());
      // Of two that end each other none waits for the other.
      if (is_mine && !session.is_idle() && !session.waits_for_others()) is_over = false;
    });
    return is_over;
  }

  // The asker among them, which is not ended yet.
  [[nodiscard]] size_t count() const noexcept {
    size_t sum = 0;
    for (const Mine& mine : by_thread_) sum += mine.killed.size() + (mine.has_asker ? 1 : 0);
    return sum;
  }
  [[nodiscard]] bool has_asker() const noexcept {
    return std::ranges::any_of(by_thread_, [](const Mine& mine) { return mine.has_asker; });
  }

 private:
  struct Mine {
    bool has_begun = false;
    bool has_asker = false;
    std::vector<uint64_t> killed;  // In their order.
  };

  void begin(Mine& mine, Lines& lines) const {
    lines.visit([&](Session& session) {
      if (!filter_.means(session)) return;
      if (&session == &asker_) {
        mine.has_asker = !skips_asker_;
        return;
      }
      mine.killed.push_back(session.id());
      session.kill();
    });
    std::ranges::sort(mine.killed);
  }

  const ClientFilter filter_;
  const Session& asker_;
  const bool skips_asker_;
  std::vector<Mine> by_thread_;
};

struct KillOptions {
  ClientFilter filter;
  bool skips_asker = true;
  bool is_old_form = false;  // An address alone, and OK as the answer.
  std::string wrong{};
};

// One option and its word. Returns what is wrong.
std::string take_option(KillOptions& options, std::string_view option, std::string_view word) {
  if (is(option, "id")) {
    const auto id = integer_of(word);
    if (!id || *id < 1) return "ERR client-id should be greater than 0";
    options.filter.id = static_cast<uint64_t>(*id);
  } else if (is(option, "type")) {
    if (!take_type(options.filter, word)) return unknown_type(word);
  } else if (is(option, "addr")) {
    options.filter.peer = word;
  } else if (is(option, "laddr")) {
    options.filter.local = word;
  } else if (is(option, "user")) {
    if (word != "default") return fmt::format("ERR No such user '{}'", word.substr(0, 128));
  } else if (is(option, "skipme") && (is(word, "yes") || is(word, "no"))) {
    options.skips_asker = is(word, "yes");
  } else {
    return std::string(kSyntaxError);
  }
  return {};
}

KillOptions kill_options_of(Words words) {
  KillOptions options;
  if (words.size() == 3) {
    options.filter.peer = words[2];
    options.skips_asker = false;
    options.is_old_form = true;
    return options;
  }
  for (size_t i = 2; i < words.size() && options.wrong.empty(); i += 2) {
    options.wrong =
        i + 1 < words.size() ? take_option(options, words[i], words[i + 1]) : std::string(kSyntaxError);
  }
  return options;
}

}  // namespace

bool client_id(Call& call) {
  call.reply.number(static_cast<int64_t>(call.session.id()));
  return true;
}

bool client_getname(Call& call) {
  if (call.session.name().empty()) {
    call.reply.null();
  } else {
    call.reply.bulk(call.session.name());
  }
  return true;
}

bool client_setname(Call& call) {
  if (is_client_name(call.words[2])) {
    call.session.take_name(call.words[2]);
    call.reply.ok();
  } else {
    call.reply.error(kWrongClientName);
  }
  return true;
}

bool client_setinfo(Call& call) {
  call.reply.ok();
  return true;
}

// Nothing is tracked.
bool client_getredir(Call& call) {
  call.reply.number(-1);
  return true;
}

bool client_info(Call& call) {
  call.reply.text(client_line(call.session, call.session.now_ns()));
  return true;
}

bool client_no_evict(Call& call) {
  const bool is_on = is(call.words[2], "on");
  if (is_on || is(call.words[2], "off")) {
    call.session.keep_longest(is_on);
    call.reply.ok();
  } else {
    call.reply.error(kSyntaxError);
  }
  return true;
}

bool client_reply(Call& call) {
  const std::string_view word = call.words[2];
  if (is(word, "on")) {
    call.session.set_replying(Session::Replying::kOn);
    call.reply.ok();
  } else if (is(word, "off")) {
    call.session.set_replying(Session::Replying::kOff);
  } else if (is(word, "skip")) {
    call.session.set_replying(Session::Replying::kNotNext);
  } else {
    call.reply.error(kSyntaxError);
  }
  return true;
}

Task<> client_list(Store& store, Pending& command) {
  const Words words = command.words;
  std::vector<uint64_t> only;
  ClientFilter filter;
  if (words.size() == 4 && is(words[2], "type")) {
    if (!take_type(filter, words[3])) co_return command.reply().error(unknown_type(words[3]));
  } else if (words.size() > 3 && is(words[2], "id")) {
    if (words.size() > kNamesMax) co_return command.reply().error(kManyNames);
    only.reserve(words.size() - 3);
    for (const std::string_view word : words.subspan(3)) {
      const auto id = integer_of(word);
      if (!id) co_return command.reply().error("ERR Invalid client ID");
      only.push_back(static_cast<uint64_t>(*id));
    }
  } else if (words.size() != 2) {
    co_return command.reply().error(kSyntaxError);
  }
  if (filter.is_none) co_return command.reply().text("");
  Listing listing(store.common.crew.threads(), std::move(only), std::move(filter));
  const bool is_done = co_await store.common.crew.run(store.place, store.shard, listing);
  if (!is_done) co_return command.reply().error(kBusy);
  command.reply().text(listing.text());
}

Task<> client_kill(Store& store, Pending& command) {
  KillOptions options = kill_options_of(command.words);
  if (!options.wrong.empty()) co_return command.reply().error(options.wrong);
  Session& session = *command.session;
  Killing killing(store.common.crew.threads(), std::move(options.filter), session, options.skips_asker);
  session.wait_for_others(true);
  const bool is_done = co_await store.common.crew.run(store.place, store.shard, killing);
  session.wait_for_others(false);
  if (!is_done) co_return command.reply().error(kBusy);
  if (!options.is_old_form) {
    command.reply().number(static_cast<int64_t>(killing.count()));
  } else if (killing.count() > 0) {
    command.reply().ok();
  } else {
    command.reply().error("ERR No such client");
  }
  if (killing.has_asker() && !session.has_left()) session.end_behind(command);
}

}  // namespace refract::doors::redis
