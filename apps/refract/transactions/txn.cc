// SPDX-License-Identifier: Apache-2.0
// txn: several changes at one moment, if all conditions hold then.
#include <fmt/format.h>

#include <vector>

#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"
#include "apps/refract/transactions/batch_text.h"

namespace refract::cli {
namespace {

Report refusal(const Client& client, const TextBatch& text, Code code, std::string_view name) {
  const TextBatch::Line* const line = text.line_of(text.batch.failed());
  const bool is_told = code == Code::kUnsupported || code == Code::kTooLarge;
  if (Report why = client.trouble(); is_told && line == nullptr && why.code == code) {
    why.what = fmt::format("{}: {}; nothing was changed", name, why.what);
    return why;
  }
  if (code == Code::kUnsupported && line == nullptr) {
    return {code,
            fmt::format("the node cannot make these {} changes at one moment; nothing was changed",
                        text.writes.size()),
            "it is of an earlier release, which has no transactions over several shards: start a newer "
            "refractd, or one with one shard"};
  }
  if (line == nullptr) return explain(client, code, fmt::format("cannot commit {}", name));
  Report said = explain(client, code,
                        fmt::format("{}:{}: {} {}", name, line->number, line->verb, in_quotes(line->key)));
  said.what += "; nothing was changed";
  if (code == Code::kInvalidArgument && line->verb == "add") {
    said.what =
        fmt::format("{}:{}: the value of {} is no number, or the sum is none of 64 bits; nothing was changed",
                    name, line->number, in_quotes(line->key));
  } else if (code == Code::kInvalidArgument) {
    said.what = fmt::format("{}:{}: {} is written by an earlier line; nothing was changed", name,
                            line->number, in_quotes(line->key));
  }
  if (said.next.empty()) said.next = "refract get -v KEY shows what is there";
  return said;
}

int tell(const Invocation& invocation, const TextBatch& text) {
  std::vector<Change> changes;
  changes.reserve(text.writes.size());
  for (size_t i = 0; i < text.writes.size(); ++i) {
    changes.push_back({.version = text.batch.version(i), .sum = text.batch.sum(i)});
  }
  if (invocation.json) return write_json(document_of(text.writes, changes));
  return write_out(text_of(text.writes, changes, invocation.verbose));
}

}  // namespace

int run_txn(const Invocation& invocation) {
  if (invocation.path == "settle") return run_settle(invocation);
  const bool is_input = invocation.path == "-";
  const std::string name = is_input ? "standard input" : invocation.path;
  const Source source{.kind = is_input ? Source::Kind::kStandardInput : Source::Kind::kFile,
                      .text = invocation.path};
  const Reported<std::string> bytes = read_source(source);
  if (!bytes) return complain(bytes.error());
  Reported<TextBatch> text = parse_batch(*bytes, name);
  if (!text) {
    (void)complain(text.error());
    return kUsage;
  }
  Reported<Client> client = connect(invocation);
  if (!client) return complain(client.error());
  const Result<> done = client->commit(text->batch);
  return done ? tell(invocation, *text) : complain(refusal(*client, *text, done.code(), name));
}

}  // namespace refract::cli
