// SPDX-License-Identifier: Apache-2.0
// LCS, which takes as long as both values together have bytes, squared: others have their turn meanwhile.
#include <array>
#include <cstdint>
#include <string_view>

#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/common_string.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

constexpr size_t kCellsOfTurn = size_t{64} * 1024;
// Redis's proto-max-bulk-len.
constexpr uint64_t kTableBytesMax = uint64_t{512} << 20;

struct LcsOptions {
  bool wants_length = false;   // LEN
  bool wants_places = false;   // IDX
  bool wants_lengths = false;  // WITHMATCHLEN
  int64_t bytes_min = 0;       // MINMATCHLEN
  std::string_view wrong = {};
};

LcsOptions lcs_options_of(Words words) {
  LcsOptions options;
  for (size_t i = 0; i < words.size() && options.wrong.empty(); ++i) {
    if (is_option(words[i], "len")) {
      options.wants_length = true;
    } else if (is_option(words[i], "idx")) {
      options.wants_places = true;
    } else if (is_option(words[i], "withmatchlen")) {
      options.wants_lengths = true;
    } else if (is_option(words[i], "minmatchlen") && i + 1 < words.size()) {
      const auto number = integer_of(words[++i]);
      options.bytes_min = number.value_or(0);
      if (!number) options.wrong = kNoInteger;
    } else {
      options.wrong = kSyntaxError;
    }
  }
  if (options.wrong.empty() && options.wants_length && options.wants_places) {
    options.wrong = "ERR If you want both the length and indexes, please just use IDX.";
  }
  return options;
}

void answer_places(Reply& reply, const CommonString& common, const LcsOptions& options) {
  CommonString::Found found = common.find();
  std::erase_if(found.matches, [&](const CommonString::Match& match) {
    return static_cast<int64_t>(match.bytes) < options.bytes_min;
  });
  const auto range = [&](size_t first, size_t bytes) {
    reply.array(2);
    reply.number(static_cast<int64_t>(first));
    reply.number(static_cast<int64_t>(first + bytes - 1));
  };
  reply.map(2);
  reply.bulk("matches");
  reply.array(found.matches.size());
  for (const CommonString::Match& match : found.matches) {
    reply.array(options.wants_lengths ? 3 : 2);
    range(match.first_of_one, match.bytes);
    range(match.first_of_other, match.bytes);
    if (options.wants_lengths) reply.number(static_cast<int64_t>(match.bytes));
  }
  reply.bulk("len");
  reply.number(static_cast<int64_t>(common.length()));
}

// True: the table of values of these lengths is too large, and it was replied.
bool is_too_large(Pending& command, uint64_t one, uint64_t other) {
  if (CommonString::table_bytes(one, other) <= kTableBytesMax) return false;
  command.reply().error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
  return true;
}

// What both have. Of an absent one nothing. False: it was replied what is wrong.
Task<bool> read_both(Store& store, Pending& command, ChangingRoom& room, std::array<GetItem, 2>& items) {
  std::array<ExistsItem, 2> looks;
  for (size_t i = 0; i < looks.size(); ++i) looks[i].key = items[i].key = command.words[i + 1];
  co_await store.client->multi_exists(looks);
  std::array<uint64_t, 2> bytes{};
  for (size_t i = 0; i < looks.size(); ++i) bytes[i] = looks[i].result ? looks[i].result->value_bytes : 0;
  if (is_too_large(command, bytes[0], bytes[1])) co_return false;
  co_await room.take(CommonString::table_bytes(bytes[0], bytes[1]) + bytes[0] + bytes[1]);
  co_await store.client->multi_get(items);
  for (GetItem& item : items) {
    const Code code = item.result.code();
    count_read(store, code == Code::kOk);
    if (code == Code::kNotFound) item.value.clear();
    if (code == Code::kOk || code == Code::kNotFound) continue;
    fail_with(command, code, *store.client);
    co_return false;
  }
  // They may have grown.
  co_return !is_too_large(command, items[0].value.size(), items[1].value.size());
}

}  // namespace

Task<> lcs(Store& store, Pending& command) {
  const LcsOptions options = lcs_options_of(Words(command.words).subspan(3));
  if (!options.wrong.empty()) co_return command.reply().error(options.wrong);
  ChangingRoom room(store);
  std::array<GetItem, 2> items;
  const bool is_well = co_await read_both(store, command, room, items);
  if (!is_well) co_return;
  CommonString common(items[0].value, items[1].value);
  while (!common.go_on(kCellsOfTurn)) co_await store.shard.sleep_for(0);
  Reply reply = command.reply();
  if (options.wants_places) {
    answer_places(reply, common, options);
  } else if (options.wants_length) {
    reply.number(static_cast<int64_t>(common.length()));
  } else {
    reply.bulk(common.find().text);
  }
}

}  // namespace refract::doors::redis
