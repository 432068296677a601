// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/snic/connection.h"

#include "refract/base/prng.h"

namespace refract::prism::snic {

Result<Grant> Connection::grant(uint16_t region, ChainRights rights) noexcept {
  for (size_t i = 0; i < count_; ++i) {
    if (grants_[i].region != region) continue;
    grants_[i].rights.bits |= rights.bits;
    return grants_[i];
  }
  Grant grant{.key = {}, .region = region, .rights = rights};
  while (grant.key.bits == 0 || find(grant.key) != nullptr) {
    if (key_seed_ != 0) key_seed_ = mix(key_seed_);
    grant.key.bits = key_seed_ != 0 ? key_seed_ : secure_random_u64();
  }
  if (const Result<> added = add(grant); !added) return fail(added.error());
  return grant;
}

Result<> Connection::add(const Grant& grant) noexcept {
  if (grant.key.bits == 0) return fail(Code::kInvalidArgument);
  for (size_t i = 0; i < count_; ++i) {
    if (grants_[i].key == grant.key || grants_[i].region == grant.region) return fail(Code::kExists);
  }
  if (count_ == grants_.size()) return fail(Code::kNoSpace);
  grants_[count_++] = grant;
  return {};
}

}  // namespace refract::prism::snic
