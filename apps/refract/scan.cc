// SPDX-License-Identifier: Apache-2.0
// scan: the keys.
#include <fmt/format.h>

#include <cstdio>

#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"

#include "refract/documents/json.h"

namespace refract::cli {
namespace {

constexpr size_t kKeysAPage = 1024;

void append_entry(std::string& out, const Invocation& invocation, const ScanEntry& entry, bool spell) {
  if (invocation.json) {
    documents::Value row;
    records::append_bytes(row, "key", entry.key);
    row.append_member("version", entry.version);
    row.append_member("value_bytes", entry.value_bytes);
    out += documents::to_json_row(row);
    return;
  }
  if (invocation.long_lines) out += fmt::format("{:>12} {:>10} ", entry.version, entry.value_bytes);
  out += spell ? printable(entry.key) : entry.key;
  out.push_back(invocation.zero_ends ? '\0' : '\n');
}

}  // namespace

void say_last(progress::Progress& progress, const progress::Style& style, std::string_view summary) {
  if (!summary.empty()) progress.message(summary);
  // The message redraws the progress line below itself; the prompt must stand there instead.
  if (style.terminal && !style.silent) std::fputs("\r\x1b[K", stderr);
}

int run_scan(const Invocation& invocation) {
  auto client = connect(invocation);
  if (!client) return complain(client.error());
  const bool spell = is_output_terminal() && !invocation.raw;
  uint64_t cursor = 0;
  uint64_t left = invocation.limit;
  do {
    // A page of a small limit need not read more than that.
    const size_t wanted = left < kKeysAPage && invocation.prefix.empty() ? left : kKeysAPage;
    const auto page = client->scan(cursor, wanted);
    if (!page) return complain(explain(*client, page.code(), "the scan is not complete"));
    std::string out;
    for (const ScanEntry& entry : page->entries) {
      if (left == 0) break;
      if (!entry.key.starts_with(invocation.prefix)) continue;
      append_entry(out, invocation, entry, spell);
      --left;
    }
    if (const int written = invocation.json && spell ? write_text(out) : write_out(out); written != kDone)
      return written;
    cursor = page->next;
  } while (cursor != 0 && left > 0);
  return kDone;
}

}  // namespace refract::cli
