// SPDX-License-Identifier: Apache-2.0
// chain: a chain of operations that is written as text, run against a node's memory, explained, or encoded.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "apps/chains/chain_text.h"
#include "apps/chains/encode.h"
#include "apps/chains/explain.h"
#include "apps/chains/outcome_text.h"
#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"

#include "refract/base/clock.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/layout/layout.h"
#include "refract/prism/client.h"
#include "refract/prism/reply.h"

namespace refract::cli {
namespace {

using chains::ParsedChain;
using chains::SourceText;

constexpr size_t kTextBytesMax = 4 << 20;

// Where no node is asked: the table's root is where its layout puts it, and there are no keys.
std::vector<chains::OpenedStore> imagined_stores(const ParsedChain& chain) {
  std::vector<chains::OpenedStore> stores;
  stores.reserve(chain.stores.size());
  for (const chains::StoreUse& use : chain.stores) {
    stores.push_back({.name = use.name,
                      .region = static_cast<uint16_t>(stores.size()),
                      .key = {},
                      .root = kv::kRootAt.value});
  }
  return stores;
}

std::string words_of_rights(prism::ChainRights rights) {
  constexpr std::pair<uint8_t, std::string_view> kWords[] = {{prism::ChainRights::kRead, "read"},
                                                             {prism::ChainRights::kWrite, "write"},
                                                             {prism::ChainRights::kAtomic, "swap"},
                                                             {prism::ChainRights::kAllocate, "allocate"}};
  std::string words;
  for (const auto& [bit, word] : kWords) {
    if (rights.cover(bit)) words += fmt::format("{}{}", words.empty() ? "" : " and ", word);
  }
  return words;
}

Report cannot_open(const SourceText& source, const chains::StoreUse& use, Code code) {
  const std::string store = in_quotes(use.name);
  switch (code) {
    case Code::kNotFound:
      return source.error(use.at, fmt::format("the node offers no store {} to chains", store));
    case Code::kAccessDenied:
      return source.error(use.at,
                          fmt::format("the chain needs the right to {} in {}, which the node does not give",
                                      words_of_rights(use.rights), store));
    case Code::kUnsupported:
      return {code, "the node executes no chains", "refract ping --why says which node this is"};
    default:
      return {code, fmt::format("cannot open {}: {}", store, info(code).sentence),
              "refract ping says whether the server answers"};
  }
}

Reported<std::vector<chains::OpenedStore>> open_stores(const SourceText& source, const ParsedChain& chain,
                                                       rpc::Session& session, uint64_t deadline_ns) {
  prism::Client client(session);
  std::vector<chains::OpenedStore> stores;
  for (const chains::StoreUse& use : chain.stores) {
    const Result<prism::Attachment> opened = client.attach_and_wait(use.name, use.rights, deadline_ns);
    if (!opened) return report(cannot_open(source, use, opened.error().code));
    stores.push_back({.name = use.name, .region = opened->region, .key = opened->key, .root = opened->root});
  }
  return stores;
}

int exit_of_reply(const prism::Reply& reply) {
  return reply.all_ok() ? kDone : kNotDone;
}

int run_on_node(const Invocation& invocation, const SourceText& source, const ParsedChain& chain) {
  auto link = NodeLink::open(link_options(invocation));
  if (!link) return complain(with_what_to_start(link.error()));
  NodeLink& node = **link;
  if (invocation.shard >= node.shard_count()) {
    return complain(
        kUsage, fmt::format("there is no shard {}: the node has {}", invocation.shard, node.shard_count()),
        "shards are numbered from 0");
  }
  rpc::Session& session = node.client(invocation.shard).session();
  const uint64_t deadline_ns = node.shard().refresh_now() + invocation.timeout_ns;
  const auto stores = open_stores(source, chain, session, deadline_ns);
  if (!stores) return complain(stores.error());
  const auto message = chains::encode(chain, *stores);
  if (!message) return complain(message.error());
  if (!session.fits({.method = prism::kChainMethod, .tail = *message})) {
    return complain(kUsage,
                    fmt::format("the chain has {} bytes, and a message of this node at most {}",
                                message->size(), session.payload_bytes_max()),
                    "leave out data, or operations");
  }
  const uint64_t begun_ns = system_clock().now_ns();
  const runtime::OpResult result =
      session.call_and_wait({.method = prism::kChainMethod, .tail = *message}, deadline_ns);
  const uint64_t round_trip_ns = system_clock().now_ns() - begun_ns;
  if (result.code != Code::kOk) {
    return complain({result.code, fmt::format("the chain came to nothing: {}", info(result.code).sentence),
                     result.code == Code::kIndeterminate ? "what it changes may have been changed"
                                                         : "no operation was executed"});
  }
  const Result<prism::Reply> reply = prism::Reply::of(result.bytes, chain.statements.size());
  if (!reply) return complain(kFailed, "the node's answer is none to this chain", "is it of this version?");
  const chains::Outcomes outcomes{
      .chain = chain, .reply = *reply, .round_trip_ns = round_trip_ns, .transport = node.transport()};
  const int exit = exit_of_reply(*reply);
  const int written =
      write_text(invocation.json ? chains::outcome_json(outcomes) : chains::outcome_text(outcomes));
  return written == kDone ? exit : written;
}

}  // namespace

int run_chain(const Invocation& invocation) {
  const std::string& file = invocation.files.front();
  const bool is_input = file == "-";
  const auto text =
      read_source({is_input ? Source::Kind::kStandardInput : Source::Kind::kFile, is_input ? "" : file});
  if (!text) return complain(text.error());
  if (text->size() > kTextBytesMax) {
    return complain(kUsage, fmt::format("{} is no chain: it has {} bytes", in_quotes(file), text->size()),
                    "a chain is a text of some lines; refract chain --help shows one");
  }
  const SourceText source{.name = is_input ? "standard input" : std::string_view(file), .text = *text};
  const auto chain = chains::parse_chain(source);
  if (!chain) return complain(chain.error());
  if (invocation.explain) return write_text(invocation.json ? explain_json(*chain) : explain(*chain));
  if (!invocation.dry_run) return run_on_node(invocation, source, *chain);
  const auto message = chains::encode(*chain, imagined_stores(*chain));
  if (!message) return complain(message.error());
  return write_text(invocation.json ? chains::wire_json(*message) : chains::wire_text(*message));
}

}  // namespace refract::cli
