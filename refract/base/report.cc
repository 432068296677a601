// SPDX-License-Identifier: Apache-2.0
#include "refract/base/report.h"

#include <system_error>

namespace refract {

std::string errno_text(int error_number) {
  return std::generic_category().message(error_number);
}

}  // namespace refract
