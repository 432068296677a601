// SPDX-License-Identifier: Apache-2.0
// load: the records of files, in batches of puts.
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>

#include "apps/progress/progress.h"
#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"
#include "apps/refract/values.h"

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/kv/layout/layout.h"

namespace refract::cli {
namespace {

constexpr size_t kBatchRecords = 512;
constexpr uint64_t kBatchBytes = 4 * kMiB;
// How long a batch that finds no server is repeated: restarts take far less.
constexpr uint64_t kPatience_ns = 30 * kSecond_ns;
constexpr int kPause_ms = 50;

bool is_passing(Code code) noexcept {
  return code == Code::kUnavailable || code == Code::kIndeterminate || code == Code::kDeadlineExceeded ||
         code == Code::kOverloaded;
}

class Loader {
 public:
  Loader(const Invocation& invocation, Client& client)
      : invocation_(invocation),
        client_(client),
        values_(invocation, client),
        progress_(clock_, progress::write_to_descriptor(STDERR_FILENO), style(), label(), "records"),
        start_ns_(clock_.now_ns()) {
    set_total();
  }

  int run() {
    for (const std::string& path : invocation_.files) {
      load_file(path);
      if (stopped_) break;
    }
    return finish();
  }

 private:
  struct Pending {
    std::string key;
    std::string value;
    std::string file;
    uint64_t line = 0;

    [[nodiscard]] std::string place() const { return line > 0 ? fmt::format("{}:{}", file, line) : file; }
  };

  [[nodiscard]] progress::Style style() const {
    progress::Style chosen = progress::style_of(STDERR_FILENO);
    chosen.silent = invocation_.no_progress;
    return chosen;
  }
  [[nodiscard]] std::string label() const {
    if (invocation_.files.size() > 1) return fmt::format("loading {} files", invocation_.files.size());
    const std::string& path = invocation_.files.front();
    const size_t slash = path.rfind('/');
    return "loading " + (path == "-" ? "input" : path.substr(slash == std::string::npos ? 0 : slash + 1));
  }
  // Known where everything is a regular file.
  void set_total() {
    uint64_t bytes = 0;
    for (const std::string& path : invocation_.files) {
      struct stat about{};
      if (::stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return;
      bytes += static_cast<uint64_t>(about.st_size);
    }
    progress_.set_total({.count = {}, .bytes = bytes});
  }

  void load_file(const std::string& path) {
    records::ReadOptions options = invocation_.reading;
    options.limits.key_bytes_max =
        kv::kKeyBytesMax - std::min(invocation_.prefix.size(), kv::kKeyBytesMax - 1);
    auto reader = records::open_reader(path, options);
    if (!reader) {
      ++files_failed_;
      progress_.message("refract: " + reader.error().to_string());
      return;
    }
    records::Record record;
    while (!stopped_) {
      const records::Next next = (*reader)->next(record);
      if (next == records::Next::kEnd) break;
      if (next == records::Next::kBad) {
        reject((*reader)->bad().to_string());
      } else {
        take(record);
      }
      progress_.update({.count = loaded_, .bytes = bytes_before_ + (*reader)->bytes_read()});
    }
    flush();
    bytes_before_ += (*reader)->bytes_read();
  }

  void reject(const std::string& why) {
    ++bad_;
    progress_.message("refract: " + why);
  }

  void take(records::Record& record) {
    std::string key = invocation_.prefix + record.key;
    // A batch has no order, and of two records with one key the last must stay.
    if (keys_.contains(key) || batch_.size() == kBatchRecords || batch_bytes_ >= kBatchBytes) flush();
    batch_bytes_ += key.size() + record.value.size();
    batch_.push_back({.key = std::move(key),
                      .value = std::move(record.value),
                      .file = std::string(record.place.file),
                      .line = record.place.line});
    keys_.insert(batch_.back().key);
  }

  void flush() {
    std::vector<PutItem> items;
    items.reserve(batch_.size());
    for (const Pending& pending : batch_) {
      items.push_back(
          {.key = pending.key, .value = pending.value, .options = {.ttl_ns = invocation_.ttl_ns}});
    }
    if (!items.empty() && !stopped_) put_all(items);
    batch_.clear();
    keys_.clear();
    batch_bytes_ = 0;
  }

  // Puts, and puts again what no server took: a put can be repeated without harm.
  void put_all(std::vector<PutItem>& items) {
    std::vector<size_t> numbers(items.size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    const uint64_t until_ns = clock_.now_ns() + kPatience_ns;
    for (bool first = true;; first = false) {
      if (!first) (void)::poll(nullptr, 0, kPause_ms);
      values_.multi_put(items);
      std::vector<PutItem> again;
      std::vector<size_t> again_numbers;
      const bool patient = clock_.now_ns() < until_ns;
      for (size_t i = 0; i < items.size(); ++i) {
        const Code code = items[i].result.code();
        if (is_passing(code) && patient) {
          again.push_back(items[i]);
          again_numbers.push_back(numbers[i]);
        } else {
          settle(batch_[numbers[i]], code);
        }
      }
      if (again.empty() || stopped_) return;
      if (first) progress_.message("refract: the server does not answer; waiting for it to come back");
      items = std::move(again);
      numbers = std::move(again_numbers);
    }
  }

  void settle(const Pending& pending, Code code) {
    if (code == Code::kOk) {
      ++loaded_;
      loaded_bytes_ += pending.key.size() + pending.value.size();
    } else if (code == Code::kNoSpace || is_passing(code)) {
      if (stopped_) return;
      stopped_ = true;
      const Report why = explain(client_, code, fmt::format("stopped at {}", pending.place()));
      exit_ = exit_of(code);
      progress_.message("refract: " + why.to_string());
    } else {
      reject(fmt::format("{}: {} (key {})", pending.place(), info(code).sentence, in_quotes(pending.key)));
    }
  }

  int finish() {
    if (files_failed_ == invocation_.files.size()) return kFailed;
    const double seconds = static_cast<double>(clock_.now_ns() - start_ns_) / 1e9;
    const double rate = seconds > 0 ? static_cast<double>(loaded_) / seconds : 0;
    std::string summary =
        fmt::format("{} loaded, {} bad, {} in {} ({}/s)", progress::count_text(loaded_),
                    progress::count_text(bad_), progress::bytes_text(loaded_bytes_),
                    progress::duration_text(seconds), progress::count_text(static_cast<uint64_t>(rate)));
    if (stopped_) summary += "; the rest was not loaded";
    say_last(progress_, style(), summary);
    if (stopped_) return exit_;
    return bad_ + files_failed_ > 0 ? kNotDone : kDone;
  }

  const Invocation& invocation_;
  Client& client_;
  Values values_;
  const Clock& clock_ = system_clock();
  progress::Progress progress_;
  uint64_t start_ns_;
  std::vector<Pending> batch_;
  std::unordered_set<std::string> keys_;  // Of the batch.
  uint64_t batch_bytes_ = 0;
  uint64_t bytes_before_ = 0;  // Read from the files before this one.
  uint64_t loaded_ = 0;
  uint64_t loaded_bytes_ = 0;
  uint64_t bad_ = 0;
  size_t files_failed_ = 0;
  bool stopped_ = false;
  int exit_ = kFailed;
};

}  // namespace

int run_load(const Invocation& invocation) {
  if (invocation.prefix.size() >= kv::kKeyBytesMax) {
    return complain(kUsage, "--prefix leaves no room for a key", "keys have up to 65,535 bytes");
  }
  auto client = connect(invocation);
  if (!client) return complain(client.error());
  return Loader(invocation, *client).run();
}

}  // namespace refract::cli
