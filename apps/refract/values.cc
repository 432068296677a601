// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/values.h"

#include <fmt/format.h>

#include "apps/refract/terminal.h"

namespace refract::cli {

Result<Got> Values::get(Bytes key, std::string& value) {
  return is_verifying_ ? verifying_.get(key, value) : client_.get(key, value);
}

Result<uint64_t> Values::put(Bytes key, Bytes value, const PutOptions& options) {
  return is_verifying_ ? verifying_.put(key, value, options) : client_.put(key, value, options);
}

void Values::multi_get(std::span<GetItem> items) {
  if (is_verifying_) {
    verifying_.multi_get(items);
  } else {
    client_.multi_get(items);
  }
}

void Values::multi_put(std::span<PutItem> items) {
  if (is_verifying_) {
    verifying_.multi_put(items);
  } else {
    client_.multi_put(items);
  }
}

Report Values::explain_unverified(std::string_view key, Code code) {
  if (code == Code::kMalformed) {
    return {
        code,
        fmt::format("the value of {} carries no checksum: it was put without --verify, or its end is damaged",
                    in_quotes(key)),
        "refract get without --verify prints what is there"};
  }
  return {code, fmt::format("the value of {} is damaged: its checksum is another's", in_quotes(key)),
          "put it again from where it came; refract get without --verify prints what is there"};
}

}  // namespace refract::cli
