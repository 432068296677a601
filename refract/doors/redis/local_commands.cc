// SPDX-License-Identifier: Apache-2.0
// Commands that concern the connection, or what the door is.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "refract/doors/redis/glob.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {
namespace {

constexpr std::string_view kWrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";

std::string unknown_subcommand(std::string_view word, std::string_view command) {
  return fmt::format("ERR unknown subcommand '{}'. Try {} HELP.", word.substr(0, 128), command);
}

// In a time that tells nothing of where they differ.
bool is_same(std::string_view one, std::string_view other) noexcept {
  unsigned difference = one.size() == other.size() ? 0 : 1;
  for (size_t i = 0; i < one.size() && i < other.size(); ++i) {
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return difference == 0;
}

// One user there is: Redis's default one.
bool is_proof(const Call& call, std::string_view user, std::string_view password) noexcept {
  const std::string& wanted = call.store.facts.password;
  return user == "default" && (wanted.empty() || is_same(password, wanted));
}

bool is_name(std::string_view name) noexcept {
  return std::ranges::all_of(name, [](char c) { return c >= '!' && c <= '~'; });
}

struct Setting {
  std::string name;
  std::string value;
};

std::vector<Setting> settings_of(const Facts& facts) {
  return {
      {"appendfsync", "everysec"},
      {"appendonly", "no"},
      {"databases", "1"},
      {"maxmemory", std::to_string(facts.memory_limit_bytes)},
      {"maxmemory-policy", facts.eviction},
      {"port", std::to_string(facts.tcp_port)},
      {"proto-max-bulk-len", std::to_string(RequestParser::kBulkBytesMax)},
      {"save", ""},
      {"timeout", "0"},
  };
}

void tell_row(Reply& reply, const Row& row) {
  reply.array(10);
  reply.bulk(row.name);
  reply.number(row.arity);
  std::vector<std::string_view> flags;
  for (std::string_view rest = row.flags; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    flags.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  reply.array(flags.size());
  for (const std::string_view flag : flags) reply.simple(flag);
  for (const int place : {row.first_key, row.last_key, row.key_step}) reply.number(place);
  // Categories of ACLs, tips, key specifications, subcommands: none are told.
  for (int i = 0; i < 4; ++i) reply.array(0);
}

}  // namespace

bool ping(Call& call) {
  if (call.words.size() > 2) {
    call.reply.error(wrong_arity("ping"));
  } else if (call.words.size() == 2) {
    call.reply.bulk(call.words[1]);
  } else {
    call.reply.simple("PONG");
  }
  return true;
}

bool echo(Call& call) {
  call.reply.bulk(call.words[1]);
  return true;
}

bool quit(Call& call) {
  call.reply.ok();
  call.session.end();
  return true;
}

bool auth(Call& call) {
  if (call.words.size() > 3) {
    call.reply.error(kSyntaxError);
    return true;
  }
  if (call.words.size() == 2 && call.store.facts.password.empty()) {
    call.reply.error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
    return true;
  }
  const std::string_view user = call.words.size() == 3 ? call.words[1] : "default";
  if (!is_proof(call, user, call.words.back())) {
    call.reply.error(kWrongPassword);
    return true;
  }
  call.session.prove();
  call.reply.ok();
  return true;
}

bool hello(Call& call) {
  const Words words = call.words;
  Protocol protocol = call.session.protocol();
  if (words.size() > 1) {
    const auto version = integer_of(words[1]);
    if (!version) {
      call.reply.error("ERR Protocol version is not an integer or out of range");
      return true;
    }
    if (*version != 2 && *version != 3) {
      call.reply.error("NOPROTO unsupported protocol version");
      return true;
    }
    protocol = *version == 3 ? Protocol::kResp3 : Protocol::kResp2;
  }
  std::optional<std::string_view> name;
  bool has_proven = call.session.has_proven();
  for (size_t i = 2; i < words.size();) {
    if (is(words[i], "auth") && i + 2 < words.size()) {
      if (!is_proof(call, words[i + 1], words[i + 2])) {
        call.reply.error(kWrongPassword);
        return true;
      }
      has_proven = true;
      i += 3;
    } else if (is(words[i], "setname") && i + 1 < words.size()) {
      name = words[i + 1];
      i += 2;
    } else {
      call.reply.error(fmt::format("ERR Syntax error in HELLO option '{}'", words[i].substr(0, 128)));
      return true;
    }
  }
  if (!has_proven) {
    call.reply.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
        "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at "
        "the same time");
    return true;
  }
  if (name && !is_name(*name)) {
    call.reply.error("ERR Client names cannot contain spaces, newlines or special characters.");
    return true;
  }
  call.session.prove();
  if (name) call.session.take_name(*name);
  call.session.speak(protocol);
  // In the protocol that it has asked for.
  Reply& reply = call.reply;
  reply.speak(protocol);
  reply.map(7);
  reply.bulk("server");
  reply.bulk("redis");
  reply.bulk("version");
  reply.bulk(kRedisVersion);
  reply.bulk("proto");
  reply.number(static_cast<int64_t>(protocol));
  reply.bulk("id");
  reply.number(static_cast<int64_t>(call.session.id()));
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
  return true;
}

bool select(Call& call) {
  const auto index = integer_of(call.words[1]);
  if (!index) {
    call.reply.error(kNoInteger);
  } else if (*index != 0) {
    call.reply.error("ERR DB index is out of range");
  } else {
    call.reply.ok();
  }
  return true;
}

bool client(Call& call) {
  const std::string_view word = call.words[1];
  const size_t count = call.words.size();
  if (is(word, "id") && count == 2) {
    call.reply.number(static_cast<int64_t>(call.session.id()));
  } else if (is(word, "getname") && count == 2) {
    if (call.session.name().empty()) {
      call.reply.null();
    } else {
      call.reply.bulk(call.session.name());
    }
  } else if (is(word, "setname") && count == 3) {
    if (is_name(call.words[2])) {
      call.session.take_name(call.words[2]);
      call.reply.ok();
    } else {
      call.reply.error("ERR Client names cannot contain spaces, newlines or special characters.");
    }
  } else if (is(word, "setinfo") && count == 4) {
    call.reply.ok();
  } else {
    call.reply.error(unknown_subcommand(word, "CLIENT"));
  }
  return true;
}

bool command(Call& call) {
  const Words words = call.words;
  if (words.size() == 1 || (is(words[1], "info") && words.size() == 2)) {
    call.reply.array(rows().size());
    for (const Row& row : rows()) tell_row(call.reply, row);
  } else if (is(words[1], "count") && words.size() == 2) {
    call.reply.number(static_cast<int64_t>(rows().size()));
  } else if (is(words[1], "list") && words.size() == 2) {
    call.reply.array(rows().size());
    for (const Row& row : rows()) call.reply.bulk(row.name);
  } else if (is(words[1], "info") && words.size() > kNamesMax) {
    call.reply.error(kManyNames);
  } else if (is(words[1], "info")) {
    call.reply.array(words.size() - 2);
    for (const std::string_view name : words.subspan(2)) {
      const Row* const row = row_of(name);
      if (row != nullptr) {
        tell_row(call.reply, *row);
      } else {
        call.reply.null_array();
      }
    }
  } else if (is(words[1], "docs")) {
    // What they do is Redis's documentation: nothing is told of it here.
    call.reply.map(0);
  } else {
    call.reply.error(unknown_subcommand(words[1], "COMMAND"));
  }
  return true;
}

bool config(Call& call) {
  const Words words = call.words;
  if (!is(words[1], "get")) {
    call.reply.error(unknown_subcommand(words[1], "CONFIG"));
    return true;
  }
  if (words.size() < 3) {
    call.reply.error(wrong_arity("config|get"));
    return true;
  }
  if (words.size() > kNamesMax) {
    call.reply.error(kManyNames);
    return true;
  }
  const auto is_long = [](std::string_view word) { return word.size() > kPatternBytesMax; };
  if (std::ranges::any_of(words, is_long)) {
    call.reply.error(kLongPattern);
    return true;
  }
  std::vector<Setting> wanted = settings_of(call.store.facts);
  std::erase_if(wanted, [&](const Setting& one) {
    return std::ranges::none_of(words.subspan(2), [&](std::string_view pattern) {
      return matches(pattern, one.name, /*ignores_case=*/true);
    });
  });
  call.reply.map(wanted.size());
  for (const Setting& one : wanted) {
    call.reply.bulk(one.name);
    call.reply.bulk(one.value);
  }
  return true;
}

}  // namespace refract::doors::redis
