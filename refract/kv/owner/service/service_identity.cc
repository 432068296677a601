// SPDX-License-Identifier: Apache-2.0
// Identified writes: whether one has been executed already, and with what outcome.
#include "refract/base/units.h"
#include "refract/kv/owner/service/service.h"

namespace refract::kv {

writes::Repetition TableService::attempt_of(const Open& session, const wire::Identity& identity) noexcept {
  if (identity.repeats_ns == 0) return {.opened_ns = session.opened_ns};
  const uint64_t age_ns = identity.repeats_ns - 1;
  // Over this session: then after it was opened. Else the caller's clock measured the time before, and may
  // have run a little faster than ours.
  const uint64_t before_ns = age_ns == 0 ? 0 : age_ns + age_ns / 1'000 + kMillisecond_ns;
  return {.repeats = true,
          .first_sent_ns =
              before_ns < age_ns || before_ns > session.opened_ns ? 0 : session.opened_ns - before_ns,
          .opened_ns = session.opened_ns};
}

std::optional<Result<uint64_t>> TableService::settled(const Write& write) {
  const RequestId request = write.options.request;
  if (!request) return std::nullopt;
  if (const auto known = outcomes_.find(request)) {
    ++repeated_;
    return known->result();
  }
  if (!write.attempt.repeats) {
    // One that is open was looked at before, and has waited since.
    const bool may_be_late = outcomes_.may_be_late(request, write.attempt.opened_ns);
    if (!may_be_late || outcomes_.is_open(request)) return std::nullopt;
    ++repeated_;
    ++indeterminate_;
    return Result<uint64_t>(fail(Code::kIndeterminate));
  }
  const Result<Table::Entry> entry = parts_.table.find(write.key);
  if (entry && entry->request == request) {
    // Executed before a crash, or too long ago to be remembered; the entry itself tells.
    ++repeated_;
    outcomes_.remember(request, entry->version, parts_.shard.refresh_now(), write.attempt.opened_ns);
    return Result<uint64_t>(entry->version);
  }
  const uint64_t first_sent_ns = write.attempt.first_sent_ns;
  if (first_sent_ns != 0 && outcomes_.would_know(request, first_sent_ns)) return std::nullopt;
  // Versions are never used twice: had it been executed, this one would be gone.
  const bool is_untouched =
      write.options.if_version != 0 && entry && entry->version == write.options.if_version;
  if (is_untouched) return std::nullopt;
  ++repeated_;
  ++indeterminate_;
  return Result<uint64_t>(fail(Code::kIndeterminate));
}

void TableService::remember(const Open& session, RequestId request, const Result<uint64_t>& result) {
  if (!request) return;
  switch (result.code()) {
    // What settles a write; after anything else it may be tried again.
    case Code::kOk:
    case Code::kNotFound:
    case Code::kExists:
    case Code::kVersionMismatch:
      outcomes_.remember(request, result, parts_.shard.refresh_now(), session.opened_ns);
      break;
    default:
      break;
  }
}

}  // namespace refract::kv
