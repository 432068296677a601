// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/transactions/batch_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "apps/records/shown_text.h"
#include "apps/refract/argument_values.h"
#include "apps/refract/terminal.h"

#include "refract/documents/json.h"

namespace refract::cli {
namespace {

constexpr std::string_view kVerbs =
    "if-absent KEY, if-exists KEY, if-version KEY N, if-value KEY VALUE, put KEY VALUE [TTL], erase KEY, add "
    "KEY N";

// The words of a line. Nothing: a quoted one does not end, or is no JSON string.
std::optional<std::vector<std::string>> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (size_t at = 0; at < line.size();) {
    if (line[at] == ' ' || line[at] == '\t' || line[at] == '\r') {
      ++at;
      continue;
    }
    size_t end = at;
    if (line[at] != '"') {
      end = std::min(line.find_first_of(" \t\r", at), line.size());
      words.emplace_back(line.substr(at, end - at));
    } else {
      for (++end; end < line.size() && line[end] != '"'; ++end) end += line[end] == '\\' ? 1 : 0;
      if (end >= line.size()) return std::nullopt;
      ++end;
      const auto value = documents::parse_json(line.substr(at, end - at));
      if (!value || !value->is_text()) return std::nullopt;
      words.emplace_back(value->as_text());
    }
    at = end;
  }
  return words;
}

template <typename Number>
std::optional<Number> number_in(const std::string& word) noexcept {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return number;
}

struct Verb {
  std::string_view name;
  size_t words_min;
  size_t words_max;
  bool is_condition;
};
constexpr Verb kAll[] = {{"if-absent", 2, 2, true}, {"if-exists", 2, 2, true}, {"if-version", 3, 3, true},
                         {"if-value", 3, 3, true},  {"put", 3, 4, false},      {"erase", 2, 2, false},
                         {"add", 3, 3, false}};

// What is wrong with it; empty: it was added.
std::string add_line(TextBatch& to, const std::vector<std::string>& words, size_t number) {
  const auto* verb = std::ranges::find(kAll, words.front(), &Verb::name);
  if (verb == std::end(kAll)) {
    return fmt::format("{} is no condition and no write; known are {}", in_quotes(words.front()), kVerbs);
  }
  if (words.size() < verb->words_min || words.size() > verb->words_max) {
    return fmt::format("{} with {} words; known are {}", verb->name, words.size(), kVerbs);
  }
  const std::string& key = words[1];
  if (key.empty() || key.size() > 65'535)
    return fmt::format("a key has 1 to 65535 bytes, not {}", key.size());
  Batch& batch = to.batch;
  if (verb->name == "if-absent") batch.if_absent(key);
  if (verb->name == "if-exists") batch.if_exists(key);
  if (verb->name == "if-value") batch.if_value(key, words[2]);
  if (verb->name == "erase") batch.erase(key);
  if (verb->name == "if-version") {
    const auto version = number_in<uint64_t>(words[2]);
    if (!version || *version == 0) return fmt::format("{} is no version", in_quotes(words[2]));
    batch.if_version(key, *version);
  }
  if (verb->name == "add") {
    const auto addend = number_in<int64_t>(words[2]);
    if (!addend) return fmt::format("{} is no number of 64 bits", in_quotes(words[2]));
    batch.add(key, *addend);
  }
  if (verb->name == "put") {
    uint64_t ttl_ns = 0;
    if (words.size() == 4) {
      const auto read = duration_of("put", words[3]);
      if (!read) return fmt::format("{} is no time to live, as 30s is", in_quotes(words[3]));
      ttl_ns = *read;
    }
    batch.put(key, words[2], ttl_ns);
  }
  (verb->is_condition ? to.conditions : to.writes)
      .push_back({.number = number, .verb = std::string(verb->name), .key = key});
  return "";
}

std::string version_text(const TextBatch::Line& line, uint64_t version) {
  if (version != 0) return fmt::format("version {}", version);
  return line.verb == "erase" ? "nothing was there, or the answer was lost"
                              : "its version is not known: the answer was lost";
}

}  // namespace

std::string text_of(std::span<const TextBatch::Line> writes, std::span<const Change> changes, bool verbose) {
  std::string out;
  for (size_t i = 0; i < writes.size(); ++i) {
    const TextBatch::Line& line = writes[i];
    const Change& change = changes[i];
    const std::string key = printable(line.key);
    if (line.verb == "add") {
      out += change.has_sum()
                 ? fmt::format("{} {}\n", key, change.sum)
                 : fmt::format("{} was added to; its sum is not known: the answer was lost\n", key);
    } else if (verbose) {
      out += fmt::format("{} {} {}\n", line.verb, key, version_text(line, change.version));
    }
  }
  return out;
}

documents::Value document_of(std::span<const TextBatch::Line> writes, std::span<const Change> changes) {
  documents::Value lines = documents::Value::array();
  for (size_t i = 0; i < writes.size(); ++i) {
    documents::Value one;
    one.append_member("write", writes[i].verb);
    records::append_bytes(one, "key", writes[i].key);
    one.append_member("version", changes[i].version);
    if (writes[i].verb == "add" && changes[i].has_sum()) one.append_member("sum", changes[i].sum);
    lines.push_back(std::move(one));
  }
  documents::Value all;
  all.append_member("writes", std::move(lines));
  return all;
}

Reported<TextBatch> parse_batch(std::string_view text, std::string_view name) {
  TextBatch to;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const auto words = words_of(line);
    std::string wrong;
    if (!words) {
      wrong = "a word in quotes is a JSON string, and this one is none";
    } else if (!words->empty() && !words->front().starts_with('#')) {
      wrong = add_line(to, *words, number);
    }
    if (wrong.empty()) continue;
    return report(Code::kInvalidArgument, fmt::format("{}:{}: {}", name, number, wrong),
                  "refract txn --help shows a file; nothing was changed");
  }
  if (!to.conditions.empty() || !to.writes.empty()) return to;
  return report(Code::kInvalidArgument, fmt::format("{} has no condition and no write", name),
                "refract txn --help shows a file");
}

}  // namespace refract::cli
