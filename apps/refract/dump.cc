// SPDX-License-Identifier: Apache-2.0
// dump: all entries, as a file that load reads.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "apps/progress/progress.h"
#include "apps/records/record_writer.h"
#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"
#include "apps/refract/values.h"

#include "refract/base/clock.h"
#include "refract/base/units.h"

namespace refract::cli {
namespace {

constexpr size_t kDumpedKeysAPage = 512;
// Values of a page are fetched in parts of so many bytes, so that large ones do not fill the memory.
constexpr uint64_t kPartBytes = 16 * kMiB;

class Dumper {
 public:
  Dumper(const Invocation& invocation, Client& client, records::RecordWriter& writer)
      : invocation_(invocation),
        client_(client),
        values_(invocation, client),
        writer_(writer),
        progress_(clock_, progress::write_to_descriptor(STDERR_FILENO), style(invocation), "dumping",
                  "records"),
        start_ns_(clock_.now_ns()) {}

  int run() {
    uint64_t cursor = 0;
    do {
      auto page = client_.scan(cursor, kDumpedKeysAPage);
      if (!page) return give_up(explain(client_, page.code(), "the dump is not complete"));
      if (!write_page(page->entries)) return exit_;
      cursor = page->next;
    } while (cursor != 0);
    if (auto finished = writer_.finish(); !finished) return give_up(finished.error());
    return finish();
  }

 private:
  [[nodiscard]] static progress::Style style(const Invocation& invocation) {
    progress::Style chosen = progress::style_of(STDERR_FILENO);
    // The progress would mix with the records on one screen.
    chosen.silent = invocation.no_progress || (invocation.output.empty() && is_output_terminal());
    return chosen;
  }

  bool write_page(std::vector<ScanEntry>& entries) {
    std::erase_if(entries,
                  [this](const ScanEntry& entry) { return !entry.key.starts_with(invocation_.prefix); });
    for (size_t begin = 0; begin < entries.size();) {
      uint64_t bytes = 0;
      size_t end = begin;
      while (end < entries.size() && (end == begin || bytes + entries[end].value_bytes <= kPartBytes)) {
        bytes += entries[end++].value_bytes;
      }
      if (!write_part(std::span(entries).subspan(begin, end - begin))) return false;
      begin = end;
    }
    return true;
  }

  bool write_part(std::span<const ScanEntry> entries) {
    if (items_.size() < entries.size()) items_.resize(entries.size());
    for (size_t i = 0; i < entries.size(); ++i) items_[i].key = entries[i].key;
    const std::span<GetItem> items = std::span(items_).first(entries.size());
    values_.multi_get(items);
    for (const GetItem& item : items) {
      if (item.result.code() == Code::kNotFound) continue;  // Erased, or expired, since it was listed.
      if (values_.is_unverified(item.result.code())) {
        ++damaged_;
        const Report why = Values::explain_unverified(item.key.text(), item.result.code());
        progress_.message("refract: " + why.to_string());
        continue;
      }
      if (!item.result) {
        const std::string what = fmt::format("cannot get {}", in_quotes(item.key.text()));
        exit_ = give_up(explain(client_, item.result.code(), what));
        return false;
      }
      if (!write(item.key.text(), item.value)) return false;
    }
    // One large value must not keep its memory to the end.
    if (entries.size() == 1 && entries.front().value_bytes > kPartBytes) items_.clear();
    return true;
  }

  bool write(std::string_view key, std::string_view value) {
    const auto written = writer_.write(key, value);
    if (written) {
      ++written_;
      bytes_ += key.size() + value.size();
    } else if (written.error().code == Code::kInvalidArgument) {
      ++bad_;
      progress_.message(fmt::format("refract: {}: {}", in_quotes(key), written.error().to_string()));
    } else {
      exit_ = give_up(written.error());
      return false;
    }
    progress_.update({.count = written_, .bytes = bytes_});
    return true;
  }

  int give_up(const Report& why) {
    progress_.message("refract: " + why.to_string());
    return exit_of(why.code);
  }

  int finish() {
    const double seconds = static_cast<double>(clock_.now_ns() - start_ns_) / 1e9;
    std::string summary = fmt::format("{} dumped, {} in {}", progress::count_text(written_),
                                      progress::bytes_text(bytes_), progress::duration_text(seconds));
    if (bad_ > 0) {
      summary += fmt::format("; {} have no form as {} and were left out", progress::count_text(bad_),
                             records::format_name(invocation_.writing));
    }
    if (damaged_ > 0) {
      summary += fmt::format("; {} did not verify and were left out", progress::count_text(damaged_));
    }
    say_last(progress_, style(invocation_), summary);
    return bad_ + damaged_ > 0 ? kNotDone : kDone;
  }

  const Invocation& invocation_;
  Client& client_;
  Values values_;
  records::RecordWriter& writer_;
  const Clock& clock_ = system_clock();
  progress::Progress progress_;
  uint64_t start_ns_;
  std::vector<GetItem> items_;
  uint64_t written_ = 0;
  uint64_t bytes_ = 0;
  uint64_t bad_ = 0;
  uint64_t damaged_ = 0;
  int exit_ = kFailed;
};

}  // namespace

int run_dump(const Invocation& invocation) {
  // First the node: without one, no empty file should replace a good one.
  auto client = connect(invocation, /*populate=*/true);
  if (!client) return complain(client.error());
  auto writer = records::open_writer(invocation.output.empty() ? "-" : invocation.output, invocation.writing,
                                     {.overwrite = invocation.overwrite, .raw = invocation.raw});
  if (!writer) return complain(writer.error());
  return Dumper(invocation, *client, **writer).run();
}

}  // namespace refract::cli
