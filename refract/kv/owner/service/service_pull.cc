// SPDX-License-Identifier: Apache-2.0
// Puts whose value the owner READs from the client's memory: an upload that only the fetcher may touch until
// its last READ has landed, and one like any other, complete, from then on. docs/design/024-pulled-puts.md.
#include "refract/kv/owner/service/service.h"

namespace refract::kv {

void TableService::start_pull(const rpc::Responder& to, const Write& write, uint64_t upload_id) {
  Open* session = find(to.session);
  SessionState::Upload* upload = session->state.find_upload(upload_id, parts_.shard.now_ns());
  session->state.mark_pulled(*upload);
  fetcher_.start({.to = to,
                  .upload = upload_id,
                  .is_draft = write.is_draft,
                  .source = write.source,
                  .target = {parts_.table.value_of(upload->draft), upload->bytes()},
                  .give_up_ns = write.give_up_ns});
}

void TableService::pulled(const PullFetcher::Pull& pull, Code code) noexcept {
  Open* session = find(pull.to.session);
  SessionState::Upload& upload = session->state.release_pulled(pull.upload);
  if (code != Code::kOk) {
    session->state.abandon(upload);
    return answer(pull.to, code);
  }
  upload.filled = upload.bytes();
  if (pull.is_draft) {
    // Only now its client can touch it.
    upload.used_ns = parts_.shard.now_ns();
    return answer(pull.to, wire::Handle{pull.upload});
  }
  // The conditions are compared again, and another call may have executed the same write meanwhile.
  write_or_wait(pull.to, *session, {.method = wire::Method::kPutPulled, .upload = pull.upload});
  look_after_memory();
  look_after_time();
}

// As a pulled put, without what is compared or remembered when it is committed. Waits for memory likewise.
void TableService::pull_draft(const rpc::IncomingCall& call) {
  Open* const session = find(call.from.session);
  if (session == nullptr) return answer(call.from, Code::kUnavailable);
  arena_.clear();
  KeyedCall keyed;
  Code code = decode_keyed(wire::Method::kPutPulled, call.payload, session->state, arena_, keyed);
  const bool is_plain = !keyed.if_absent && keyed.if_version == 0 && keyed.identity.client == 0;
  if (code == Code::kOk && !is_plain) code = Code::kInvalidArgument;
  if (code != Code::kOk) return answer(call.from, code);
  keyed.key.hash = parts_.table.hash(keyed.key.bytes);
  if (!is_ours(keyed.key)) return answer(call.from, Code::kWrongShard);
  if (keyed.source.address.region() < session->pull_region_min) return answer(call.from, Code::kUnsupported);
  write_or_wait(call.from, *session,
                {.method = wire::Method::kPutPulled,
                 .key = keyed.key,
                 .value_bytes = keyed.value_bytes,
                 .options = {.expires_wall_ns = writes::expiry(parts_.shard.clock(), keyed.ttl_ns)},
                 .source = keyed.source,
                 .give_up_ns = moment_after(parts_.shard.now_ns(), keyed.timeout_ns),
                 .is_draft = true});
}

// What could not be committed: no client knows of it that could try again.
void TableService::drop_pulled(Open& session, const Write& write) {
  if (write.method != wire::Method::kPutPulled) return;
  SessionState::Upload* upload = session.state.find_upload(write.upload, parts_.shard.now_ns());
  if (upload != nullptr) session.state.abandon(*upload);
}

}  // namespace refract::kv
