// SPDX-License-Identifier: Apache-2.0
// COMMAND: which commands there are, and what they take.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "refract/doors/admin/command_docs.h"
#include "refract/doors/admin/handlers.h"
#include "refract/doors/redis/glob.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {
namespace {

// Those of these words, from the third on; null: there is none of that name. Nothing named: all.
std::vector<const Row*> rows_named(Words words) {
  std::vector<const Row*> named;
  named.reserve(rows().size() + words.size());
  for (const std::string_view name : words.subspan(std::min<size_t>(words.size(), 2))) {
    named.push_back(row_of_full_name(name));
  }
  if (words.size() > 2) return named;
  for (const Row& row : rows()) named.push_back(&row);
  return named;
}

bool has_too_many_names(Call& call) {
  if (call.words.size() <= kNamesMax) return false;
  call.reply.error(kManyNames);
  return true;
}

// The command that the words behind these two are, which has keys and as many words as it takes. Null: the
// reply is there.
const Row* row_with_keys(Call& call, Words words) {
  const Row* const row = row_called_by(words);
  if (row == nullptr) {
    call.reply.error("ERR Invalid command specified");
  } else if (!has_keys(*row)) {
    call.reply.error("ERR The command has no key arguments");
  } else if (!has_arity(*row, words.size())) {
    call.reply.error("ERR Invalid number of arguments specified for command");
  } else {
    return row;
  }
  return nullptr;
}

struct Asked {
  const Row& row;
  std::vector<std::string_view> keys;
};
// Likewise, and the keys among them. Nothing: the reply is there.
std::optional<Asked> keys_asked_for(Call& call, Words words) {
  const Row* const row = row_with_keys(call, words);
  if (row == nullptr) return std::nullopt;
  Asked asked{.row = *row, .keys = keys_of(*row, words)};
  if (!asked.keys.empty()) return asked;
  call.reply.error("ERR Invalid arguments specified for command");
  return std::nullopt;
}

// As COMMAND LIST has it, filtered or not: subcommands stand among the others.
template <typename IsWanted>
void tell_names(Reply& reply, IsWanted is_wanted) {
  std::vector<std::string_view> names;
  names.reserve(4 * rows().size());
  for (const Row& row : rows()) {
    if (is_wanted(row)) names.push_back(row.name);
    if (row.subcommands == nullptr) continue;
    for (const Row& one : row.subcommands()) {
      if (is_wanted(one)) names.push_back(one.name);
    }
  }
  reply.array(names.size());
  for (const std::string_view name : names) reply.bulk(name);
}

}  // namespace

bool command(Call& call) {
  return command_info(call);
}

bool command_info(Call& call) {
  if (has_too_many_names(call)) return true;
  const std::vector<const Row*> named = rows_named(call.words);
  call.reply.array(named.size());
  for (const Row* const row : named) {
    if (row != nullptr) {
      tell_info(call.reply, *row);
    } else {
      call.reply.null();
    }
  }
  return true;
}

bool command_docs(Call& call) {
  if (has_too_many_names(call)) return true;
  std::vector<const Row*> named = rows_named(call.words);
  std::erase(named, nullptr);
  call.reply.map(named.size());
  for (const Row* const row : named) tell_docs(call.reply, *row);
  return true;
}

bool command_count(Call& call) {
  call.reply.number(static_cast<int64_t>(rows().size()));
  return true;
}

bool command_list(Call& call) {
  const Words words = call.words;
  if (words.size() == 2) {
    tell_names(call.reply, [](const Row& /*row*/) { return true; });
    return true;
  }
  const bool is_filtered = words.size() == 5 && is(words[2], "filterby");
  if (is_filtered && is(words[3], "module")) {
    call.reply.array(0);
  } else if (is_filtered && is(words[3], "aclcat")) {
    tell_names(call.reply, [&](const Row& row) {
      return std::ranges::any_of(categories_of(row),
                                 [&](std::string_view category) { return is(words[4], category.substr(1)); });
    });
  } else if (is_filtered && is(words[3], "pattern") && words[4].size() > kPatternBytesMax) {
    call.reply.error(kLongPattern);
  } else if (is_filtered && is(words[3], "pattern")) {
    tell_names(call.reply,
               [&](const Row& row) { return matches(words[4], row.name, /*ignores_case=*/true); });
  } else {
    call.reply.error(kSyntaxError);
  }
  return true;
}

bool command_getkeys(Call& call) {
  const Words words = call.words.subspan(2);
  if (const auto found = keys_asked_for(call, words)) {
    call.reply.array(found->keys.size());
    for (const std::string_view key : found->keys) call.reply.bulk(key);
  }
  return true;
}

bool command_getkeysandflags(Call& call) {
  const Words words = call.words.subspan(2);
  const auto found = keys_asked_for(call, words);
  if (!found) return true;
  call.reply.array(found->keys.size());
  for (size_t i = 0; i < found->keys.size(); ++i) {
    call.reply.array(2);
    call.reply.bulk(found->keys[i]);
    const std::vector<std::string_view> flags = key_flags_of(found->row, words, i);
    call.reply.set(flags.size());
    for (const std::string_view flag : flags) call.reply.simple(flag);
  }
  return true;
}

}  // namespace refract::doors::redis
