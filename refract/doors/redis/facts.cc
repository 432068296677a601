// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/facts.h"

#include <sys/socket.h>

namespace refract::doors::redis {

bool Loading::is_so() const noexcept {
  if (!is_loading_.load()) return false;
  char word = 0;
  const bool is_told = ::recv(link_, &word, sizeof(word), MSG_PEEK | MSG_DONTWAIT) > 0;
  // Else another thread may have taken it meanwhile.
  return !is_told && is_loading_.load();
}

}  // namespace refract::doors::redis
