// SPDX-License-Identifier: Apache-2.0
// SUBSCRIBE, PUBLISH, PUBSUB and their like.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "refract/base/units.h"
#include "refract/doors/admin/handlers.h"
#include "refract/doors/messages/handlers.h"
#include "refract/doors/redis/glob.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

// Each is matched with all patterns.
constexpr size_t kChannelBytesMax = size_t{64} * 1024;
constexpr std::string_view kLongChannel = "ERR channels have at most 65536 bytes";
// What PUBSUB CHANNELS tells.
constexpr size_t kNamesBytesMax = size_t{512} << 20;
// Until a message that found no room is tried again.
constexpr uint64_t kRetry_ns = 100 * kMicrosecond_ns;

// As Redis tells it: shard channels apart, and channels and patterns together.
int64_t count_of(const Session& session, TopicKind kind) noexcept {
  if (kind == TopicKind::kShardChannel) return static_cast<int64_t>(session.count(kind));
  return static_cast<int64_t>(session.count(TopicKind::kChannel) + session.count(TopicKind::kPattern));
}

std::string_view wrong_name(TopicKind kind, std::string_view name) noexcept {
  if (kind == TopicKind::kPattern) return name.size() > kPatternBytesMax ? kLongPattern : std::string_view();
  return name.size() > kChannelBytesMax ? kLongChannel : std::string_view();
}

// `said`: the word that each name is confirmed by.
bool join_all(Call& call, TopicKind kind, std::string_view said) {
  const Words names = call.words.subspan(1);
  for (const std::string_view name : names) {
    const std::string_view wrong = wrong_name(kind, name);
    if (wrong.empty()) continue;
    call.reply.error(wrong);
    return true;
  }
  for (const std::string_view name : names) {
    (void)call.store.common.board.join(call.store.place, call.session, kind, name);
    call.reply.push(3);
    call.reply.bulk(said);
    call.reply.bulk(name);
    call.reply.number(count_of(call.session, kind));
  }
  return true;
}

void leave_one(Call& call, TopicKind kind, std::string_view said, std::string_view name) {
  (void)call.store.common.board.leave(call.store.place, call.session, kind, name);
  call.reply.push(3);
  call.reply.bulk(said);
  call.reply.bulk(name);
  call.reply.number(count_of(call.session, kind));
}

bool leave_named(Call& call, TopicKind kind, std::string_view said) {
  for (const std::string_view name : call.words.subspan(1)) leave_one(call, kind, said, name);
  if (call.words.size() > 1) return true;
  const std::vector<std::string> names = Board::names_of(call.session, kind);
  for (const std::string& name : names) leave_one(call, kind, said, name);
  if (!names.empty()) return true;
  call.reply.push(3);
  call.reply.bulk(said);
  call.reply.null();
  call.reply.number(count_of(call.session, kind));
  return true;
}

// SPUBLISH, or PUBLISH.
TopicKind kind_of(Words words) noexcept {
  return is(words[0], "spublish") ? TopicKind::kShardChannel : TopicKind::kChannel;
}

bool names_of_topics(Call& call, TopicKind kind) {
  const Words words = call.words;
  if (words.size() > 3) {
    call.reply.error(fmt::format(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try PUBSUB HELP.", words[1]));
    return true;
  }
  if (words.size() == 3 && words[2].size() > kPatternBytesMax) {
    call.reply.error(kLongPattern);
    return true;
  }
  std::vector<std::string> names;
  size_t bytes = 0;
  call.store.common.board.visit(kind, [&](std::string_view name) {
    if (bytes > kNamesBytesMax || (words.size() == 3 && !matches(words[2], name))) return;
    bytes += sizeof(std::string) + name.size();
    names.emplace_back(name);
  });
  if (bytes > kNamesBytesMax) {
    call.reply.error(kLongAnswer);
    return true;
  }
  call.reply.array(names.size());
  for (const std::string& name : names) call.reply.bulk(name);
  return true;
}

bool counts_of_topics(Call& call, TopicKind kind) {
  const Words names = call.words.subspan(2);
  call.reply.array(2 * names.size());
  for (const std::string_view name : names) {
    call.reply.bulk(name);
    call.reply.number(static_cast<int64_t>(call.store.common.board.hearers(kind, name)));
  }
  return true;
}

constexpr std::string_view kOfPubsub = "pubsub loading stale";
constexpr Row kPubsubRows[] = {
    {"pubsub|channels", -2, Kind::kLocal, pubsub_channels, nullptr, kOfPubsub, 0, 0, 0},
    {"pubsub|help", 2, Kind::kLocal, help, nullptr, "loading stale", 0, 0, 0},
    {"pubsub|numpat", 2, Kind::kLocal, pubsub_numpat, nullptr, kOfPubsub, 0, 0, 0},
    {"pubsub|numsub", -2, Kind::kLocal, pubsub_numsub, nullptr, kOfPubsub, 0, 0, 0},
    {"pubsub|shardchannels", -2, Kind::kLocal, pubsub_shardchannels, nullptr, kOfPubsub, 0, 0, 0},
    {"pubsub|shardnumsub", -2, Kind::kLocal, pubsub_shardnumsub, nullptr, kOfPubsub, 0, 0, 0},
};

}  // namespace

std::span<const Row> pubsub_rows() noexcept {
  return kPubsubRows;
}

bool subscribe(Call& call) {
  return join_all(call, TopicKind::kChannel, "subscribe");
}
bool unsubscribe(Call& call) {
  return leave_named(call, TopicKind::kChannel, "unsubscribe");
}
bool psubscribe(Call& call) {
  return join_all(call, TopicKind::kPattern, "psubscribe");
}
bool punsubscribe(Call& call) {
  return leave_named(call, TopicKind::kPattern, "punsubscribe");
}
bool ssubscribe(Call& call) {
  return join_all(call, TopicKind::kShardChannel, "ssubscribe");
}
bool sunsubscribe(Call& call) {
  return leave_named(call, TopicKind::kShardChannel, "sunsubscribe");
}

bool publish_at_once(Call& call) {
  if (call.words[1].size() > kChannelBytesMax) {
    call.reply.error(kLongChannel);
    return true;
  }
  const auto receivers =
      call.store.common.board.publish(call.store.place, kind_of(call.words), call.words[1], call.words[2]);
  if (receivers) call.reply.number(static_cast<int64_t>(*receivers));
  return receivers.has_value();
}

// There is no room yet. Its thread continues with all else, its own letters included, so two threads that
// wait for each other have room again.
Task<> publish(Store& store, Pending& command) {
  while (!command.session->has_left()) {
    Call call{.store = store, .session = *command.session, .words = command.words, .reply = command.reply()};
    if (publish_at_once(call)) co_return;
    co_await store.shard.sleep_for(kRetry_ns);
  }
}

bool pubsub_channels(Call& call) {
  return names_of_topics(call, TopicKind::kChannel);
}
bool pubsub_shardchannels(Call& call) {
  return names_of_topics(call, TopicKind::kShardChannel);
}
bool pubsub_numsub(Call& call) {
  return counts_of_topics(call, TopicKind::kChannel);
}
bool pubsub_shardnumsub(Call& call) {
  return counts_of_topics(call, TopicKind::kShardChannel);
}
bool pubsub_numpat(Call& call) {
  call.reply.number(static_cast<int64_t>(call.store.common.board.topics(TopicKind::kPattern)));
  return true;
}

bool changes_subscriptions(const Row& row) noexcept {
  return row.flags.starts_with("pubsub noscript");
}

bool holds_others_back(const Row& row) noexcept {
  return changes_subscriptions(row) || row.at_once == reset;
}

bool runs_while_subscribed(const Row& row) noexcept {
  return holds_others_back(row) || row.at_once == ping || row.at_once == quit;
}

std::string not_while_subscribed(const Row& row) {
  return fmt::format(
      "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in "
      "this context",
      row.name);
}

}  // namespace refract::doors::redis
