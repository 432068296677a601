// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/held_answers.h"

#include <algorithm>

#include "refract/base/check.h"

namespace refract::kv {

void HeldAnswers::keep(const rpc::Responder& to, uint64_t position, Code code, const Text& text) {
  Answer& answer = answers_.emplace_back();
  answer.to = to;
  answer.position = position;
  answer.code = code;
  REFRACT_CHECK(text.head.size() <= answer.head.size());
  answer.head_bytes = static_cast<uint8_t>(text.head.size());
  std::ranges::copy(text.head, answer.head.begin());
  answer.tail.assign(text.tail.begin(), text.tail.end());
}

HeldAnswers::Given HeldAnswers::give(rpc::Server* server, uint64_t confirmed, Code failure) noexcept {
  Given given;
  for (; !answers_.empty(); ++given.answers) {
    const Answer& answer = answers_.front();
    const bool is_confirmed = answer.position <= confirmed;
    if (!is_confirmed && failure == Code::kOk) break;
    given.failed += is_confirmed ? 0 : 1;
    if (server != nullptr && is_confirmed) {
      server->reply(answer.to, answer.code, std::span(answer.head).first(answer.head_bytes), answer.tail);
    } else if (server != nullptr) {
      server->reply(answer.to, failure);
    }
    answers_.pop_front();
  }
  return given;
}

void HeldAnswers::drop(rpc::SessionId session) noexcept {
  std::erase_if(answers_, [session](const Answer& answer) { return answer.to.session == session; });
}

}  // namespace refract::kv
