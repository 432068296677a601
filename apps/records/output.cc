// SPDX-License-Identifier: Apache-2.0
#include "apps/records/output.h"

#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include "refract/base/printable.h"

namespace refract::records {

void Output::write_out(std::string_view bytes) noexcept {
  while (!bytes.empty() && error_ == 0) {
    const ssize_t put = ::write(file_.number(), bytes.data(), bytes.size());
    if (put >= 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
}

void Output::flush() noexcept {
  write_out(is_terminal_ ? printable(buffer_, LineBreaks::kKept) : buffer_);
  buffer_.clear();
}

Reported<> Output::status() const {
  if (error_ == 0) return {};
  return report(Code::kSystem, fmt::format("cannot write {}: {}", name_, errno_text(error_)),
                error_ == ENOSPC ? "make room, or write elsewhere" : "");
}

Reported<> Output::finish() {
  if (target_ != nullptr) return {};
  flush();
  if (file_.close() != 0 && error_ == 0) error_ = errno;
  return status();
}

}  // namespace refract::records
