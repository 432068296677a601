// SPDX-License-Identifier: Apache-2.0
#include "refract/base/report.h"

#include <cstring>

namespace refract {

// Not by a std::error_category: a sanitizer's look at its type needs a descriptor, and this may be said for
// want of one.
std::string errno_text(int error_number) {
  const char* const text = ::strerrordesc_np(error_number);
  return text != nullptr ? text : "Unknown error " + std::to_string(error_number);
}

}  // namespace refract
