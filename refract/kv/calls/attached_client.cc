// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/attached_client.h"

namespace refract::kv {

runtime::Task<Code> AttachedClient::attach(uint64_t deadline_ns) {
  if (is_current()) co_return attached_;
  const uint64_t opened_ns = session_.opened_ns();
  const Code code = co_await learn(deadline_or_default(deadline_ns));
  if (is_lost(code)) co_return code;
  if (opened_ns != session_.opened_ns()) co_return Code::kUnavailable;
  is_tried_ = true;
  tried_opened_ns_ = opened_ns;
  attached_ = code;
  co_return code;
}

}  // namespace refract::kv
