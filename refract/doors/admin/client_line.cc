// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/client_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "refract/base/units.h"
#include "refract/doors/exec/multi.h"
#include "refract/doors/redis/session.h"

namespace refract::doors::redis {
namespace {

bool has_queue(const Session& session) noexcept {
  return session.multi() != nullptr && session.multi()->queue() != nullptr;
}
// -1: none are queued, since no MULTI is open.
int64_t queued(const Session& session) noexcept {
  return has_queue(session) ? static_cast<int64_t>(session.multi()->queue()->commands().size()) : -1;
}

std::string flags_of(const Session& session) {
  std::string flags;
  if (has_queue(session)) flags += 'x';
  if (session.is_subscribed()) flags += 'P';
  if (!session.takes_requests()) flags += 'c';
  if (session.peer().starts_with('/')) flags += 'U';
  if (session.is_kept_longest()) flags += 'e';
  return flags.empty() ? "N" : flags;
}

uint64_t seconds_since(uint64_t then_ns, uint64_t now_ns) noexcept {
  return (now_ns - std::min(then_ns, now_ns)) / kSecond_ns;
}

}  // namespace

// What there is no such thing of here is told as Redis tells it of a plain client.
std::string client_line(const Session& session, uint64_t now_ns) {
  const size_t unsent = session.output().bytes();
  return fmt::format(
      "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db=0 sub={} psub={} ssub={} multi={} "
      "qbuf={} qbuf-free={} argv-mem={} multi-mem={} rbs={} rbp={} obl={} oll=0 omem=0 tot-mem={} events={} "
      "cmd={} user=default redir=-1 resp={}\n",
      session.id(), session.peer(), session.local(), session.descriptor(), session.name(),
      seconds_since(session.begun_ns(), now_ns), seconds_since(session.last_heard_ns(), now_ns),
      flags_of(session), session.count(TopicKind::kChannel), session.count(TopicKind::kPattern),
      session.count(TopicKind::kShardChannel), queued(session), session.kept_bytes(), session.kept_room(),
      session.pending_bytes(), session.multi() != nullptr ? session.multi()->held_bytes() : 0,
      session.output().own_bytes(), unsent, unsent, sizeof(Session) + session.held_bytes(),
      unsent > 0 ? "rw" : "r", session.last_row() != nullptr ? session.last_row()->name : "NULL",
      static_cast<int>(session.protocol()));
}

bool ClientFilter::means(const Session& session) const noexcept {
  return !is_none && (!id || *id == session.id()) && (!peer || *peer == session.peer()) &&
         (!local || *local == session.local()) &&
         (!is_subscribed || *is_subscribed == session.is_subscribed());
}

}  // namespace refract::doors::redis
