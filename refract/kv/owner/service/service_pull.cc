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
  // The conditions are compared again, and another call may have executed the same write meanwhile.
  write_or_wait(pull.to, *session, {.method = wire::Method::kPutPulled, .upload = pull.upload});
  look_after_memory();
  look_after_time();
}

// What could not be committed: no client knows of it that could try again.
void TableService::drop_pulled(Open& session, const Write& write) {
  if (write.method != wire::Method::kPutPulled) return;
  SessionState::Upload* upload = session.state.find_upload(write.upload, parts_.shard.now_ns());
  if (upload != nullptr) session.state.abandon(*upload);
}

}  // namespace refract::kv
