// SPDX-License-Identifier: Apache-2.0
// clear: all entries.
#include <fmt/format.h>

#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"

#include "refract/documents/json.h"

namespace refract::cli {

int run_clear(const Invocation& invocation) {
  auto client = connect(invocation);
  if (!client) return complain(client.error());
  const Result<uint64_t> erased = client->clear();
  if (!erased) return complain(explain(*client, erased.code(), "not all keys were removed"));
  if (!invocation.json) return write_text(fmt::format("{} keys removed\n", *erased));
  documents::Value row;
  row.append_member("erased", *erased);
  return write_text(documents::to_json_row(row));
}

}  // namespace refract::cli
