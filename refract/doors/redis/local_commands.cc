// SPDX-License-Identifier: Apache-2.0
// Commands that concern the connection, or what the door is.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/doors/admin/handlers.h"
#include "refract/doors/exec/multi.h"
#include "refract/doors/redis/handlers.h"

namespace refract::doors::redis {
namespace {

constexpr std::string_view kWrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";

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

}  // namespace

bool is_client_name(std::string_view name) noexcept {
  return std::ranges::all_of(name, [](char c) { return c >= '!' && c <= '~'; });
}

bool ping(Call& call) {
  if (call.words.size() > 2) {
    call.reply.error(wrong_arity("ping"));
  } else if (call.session.is_subscribed() && call.session.protocol() == Protocol::kResp2) {
    call.reply.array(2);
    call.reply.bulk("pong");
    call.reply.bulk(call.words.size() == 2 ? call.words[1] : "");
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
  if (name && !is_client_name(*name)) {
    call.reply.error(kWrongClientName);
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

std::string wrong_database(std::string_view word) {
  const auto index = integer_of(word);
  if (!index) return std::string(kNoInteger);
  if (*index == 0) return {};
  if (*index >= INT32_MIN && *index <= INT32_MAX) return "ERR DB index is out of range";
  return fmt::format("ERR value is out of range, value must between {} and {}", INT32_MIN, INT32_MAX);
}

bool select(Call& call) {
  const std::string wrong = wrong_database(call.words[1]);
  if (wrong.empty()) {
    call.reply.ok();
  } else {
    call.reply.error(wrong);
  }
  return true;
}

bool reset(Call& call) {
  Session& session = call.session;
  if (session.multi() != nullptr) session.multi()->drop();
  call.store.common.board.leave_all(call.store.place, session);
  session.reset_replying();
  session.take_name("");
  session.speak(Protocol::kResp2);
  if (!call.store.facts.password.empty()) session.forget_proof();
  call.reply.simple("RESET");
  return true;
}

// Microseconds, as two words.
bool time(Call& call) {
  const uint64_t us = system_clock().wall_ns() / kMicrosecond_ns;
  call.reply.array(2);
  call.reply.bulk(std::to_string(us / 1'000'000));
  call.reply.bulk(std::to_string(us % 1'000'000));
  return true;
}

}  // namespace refract::doors::redis
