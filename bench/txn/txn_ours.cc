// SPDX-License-Identifier: Apache-2.0
// Our own transactions on a node of their own, by shared memory or TCP.
#include <fmt/core.h>

#include <utility>
#include <vector>

#include "bench/sides/private_node.h"
#include "bench/sides/rivals.h"
#include "bench/txn/txn_side.h"

#include "refract/client/async_client.h"
#include "refract/client/client.h"

namespace refract::bench {

using runtime::Task;

namespace {

// The node's keys and values, as its client takes them.
struct TxnItems {
  std::vector<TxnKey> keys;
  std::vector<GetItem> gets;

  TxnItems(const TxnMix& mix, std::span<const uint64_t> entries)
      : keys(entries.size()), gets(entries.size()) {
    for (size_t i = 0; i < entries.size(); ++i) {
      keys[i] = txn_key(mix, entries[i]);
      gets[i].key = key(i);
    }
  }
  [[nodiscard]] Bytes key(size_t i) const noexcept {
    return {std::string_view(keys[i].data(), keys[i].size())};
  }
  // What was found, or why there is nothing.
  [[nodiscard]] Code amount(const TxnMix& mix, size_t i, int64_t& amount) const noexcept {
    const GetItem& item = gets[i];
    if (!item.result) return item.result.code();
    return read_amount(std::as_bytes(std::span(item.value)), mix.value_bytes, amount) ? Code::kOk
                                                                                      : Code::kCorrupt;
  }
};

class OurTxnClient final : public TxnClient {
 public:
  OurTxnClient(const TxnLoad& load, std::unique_ptr<AsyncClient> client)
      : mix_(load.mix),
        is_plain_(load.is_plain),
        client_(std::move(client)),
        body_([this](AsyncTransaction& t) { return run(t); }),
        value_(mix_.value_bytes) {}

  [[nodiscard]] Task<TxnAnswer> execute(const TxnPlan& plan, uint64_t patience_ns) override {
    plan_ = &plan;
    answer_ = {};
    if (is_plain_) {
      answer_.code = co_await put_plainly();
      co_return answer_;
    }
    const Result<> done = co_await client_->transaction(body_, {.timeout_ns = patience_ns});
    // The body's own error, which counts only where its reads stood together.
    answer_.code =
        answer_.effect.is_refused && done.code() == Code::kInvalidArgument ? Code::kOk : done.code();
    co_return answer_;
  }
  [[nodiscard]] size_t read_max() const noexcept override { return 512; }
  [[nodiscard]] Task<Code> read(std::span<const uint64_t> entries, std::span<int64_t> amounts) override {
    TxnItems items(mix_, entries);
    co_await client_->multi_get(items.gets);
    Code worst = Code::kOk;
    for (size_t i = 0; i < entries.size(); ++i) {
      const Code code = items.amount(mix_, i, amounts[i]);
      if (code != Code::kOk) worst = code;
    }
    co_return worst;
  }

 private:
  [[nodiscard]] Task<Result<>> run(AsyncTransaction& t) {
    ++answer_.attempts;
    TxnItems items(mix_, plan_->read());
    co_await t.multi_get(items.gets);
    const Code computed = compute(items);
    if (computed != Code::kOk) co_return fail(computed);
    for (size_t i = 0; i < plan_->count; ++i) {
      if (!plan_->writes(i)) continue;
      const Result<> put = t.put(items.key(i), value_of(i));
      if (!put) co_return put;
    }
    co_return Result<>();
  }
  // As a mutation: what another client puts meanwhile is lost.
  [[nodiscard]] Task<Code> put_plainly() {
    ++answer_.attempts;
    TxnItems items(mix_, plan_->read());
    co_await client_->multi_get(items.gets);
    const Code computed = compute(items);
    if (computed != Code::kOk) co_return answer_.effect.is_refused ? Code::kOk : computed;
    for (size_t i = 0; i < plan_->count; ++i) {
      if (!plan_->writes(i)) continue;
      const Result<uint64_t> put = co_await client_->put(items.key(i), value_of(i));
      if (!put) co_return put.code();
    }
    co_return Code::kOk;
  }
  [[nodiscard]] Code compute(const TxnItems& items) {
    for (size_t i = 0; i < plan_->count; ++i) {
      const Code code = items.amount(mix_, i, amounts_[i]);
      if (code != Code::kOk) return code;
    }
    answer_.effect = apply(*plan_, std::span(amounts_).first(plan_->count));
    return answer_.effect.is_refused ? Code::kInvalidArgument : Code::kOk;
  }
  [[nodiscard]] Bytes value_of(size_t i) {
    write_amount(value_, amounts_[i]);
    return {std::span<const std::byte>(value_)};
  }

  const TxnMix mix_;
  const bool is_plain_;
  std::unique_ptr<AsyncClient> client_;
  const AsyncClient::Body body_;
  std::vector<std::byte> value_;
  // Of the transaction at hand.
  const TxnPlan* plan_ = nullptr;
  TxnAnswer answer_;
  std::array<int64_t, kTxnEntriesMax> amounts_ = {};
};

class OurTxnSide final : public TxnSide {
 public:
  OurTxnSide(const TxnLoad& load, PrivateNode node)
      : TxnSide(std::string(kTxnOurs), load), node_(std::move(node)) {
    set_how(
        fmt::format("refractd, {} shard{}; {}", load.shards, load.shards == 1 ? "" : "s",
                    load.provider == TxnProvider::kTcp ? "all by TCP" : "reads directly, commits by shm"));
  }
  ~OurTxnSide() override { shard_.drop_tasks(); }

  [[nodiscard]] Reported<> fill() {
    Reported<Client> client = Client::connect(node_.socket_path());
    if (!client) return report(client.error());
    const TxnMix& mix = load().mix;
    constexpr uint64_t kPieces = 128;
    std::vector<TxnKey> keys(kPieces);
    std::vector<std::vector<std::byte>> values(kPieces, std::vector<std::byte>(mix.value_bytes));
    for (uint64_t first = 0; first < mix.entries(); first += kPieces) {
      std::vector<PutItem> puts(std::min(kPieces, mix.entries() - first));
      for (uint64_t i = 0; i < puts.size(); ++i) {
        keys[i] = txn_key(mix, first + i);
        write_amount(values[i], initial_amount(mix, first + i));
        puts[i].key = Bytes(bytes_of(keys[i]));
        puts[i].value = Bytes(std::span<const std::byte>(values[i]));
      }
      client->multi_put(puts);
      for (const PutItem& put : puts) {
        if (!put.result) return failed("filling the node", put.result.code());
      }
    }
    return {};
  }
  [[nodiscard]] Reported<> connect() {
    const bool is_tcp = load().provider == TxnProvider::kTcp;
    const std::string& address = is_tcp ? node_.tcp_address() : node_.socket_path();
    for (size_t i = 0; i < load().clients; ++i) {
      auto client = block_on(shard_, AsyncClient::connect(shard_, address));
      if (!client) return report(client.error());
      if (!is_tcp && !(*client)->route().direct) {
        return report(Code::kUnsupported, "the client does not read directly: " + (*client)->route().reason);
      }
      clients_.push_back(std::make_unique<OurTxnClient>(load(), std::move(*client)));
    }
    return {};
  }

  [[nodiscard]] size_t clients() const noexcept override { return clients_.size(); }
  [[nodiscard]] TxnClient& client(size_t i) noexcept override { return *clients_[i]; }
  [[nodiscard]] runtime::Shard& shard_of(size_t /*i*/) noexcept override { return shard_; }
  void spawn(size_t /*i*/, Task<> task) override { shard_.spawn(std::move(task)); }
  [[nodiscard]] bool run_until(const std::function<bool()>& done) override { return shard_.run_until(done); }

 private:
  using TxnSide::failed;

  PrivateNode node_;
  runtime::Shard shard_{system_clock()};
  std::vector<std::unique_ptr<OurTxnClient>> clients_;
};

}  // namespace

StartedTxnSide start_our_txn_side(const TxnLoad& load, bool is_bound) {
  const TxnMix& mix = load.mix;
  Reported<PrivateNode> node = PrivateNode::start(
      {.program = load.node_program,
       .memory_limit_bytes = memory_bytes_for(mix.entries(), kTxnKeyBytes, mix.value_bytes) * load.shards,
       .is_bound = is_bound,
       .shards = load.shards,
       .listen_address = load.provider == TxnProvider::kTcp ? "127.0.0.1" : "",
       .further = {"--kv-copies", "1"}});  // So that the entries of an account are in one shard.
  if (!node) return report(node.error());
  auto side = std::make_unique<OurTxnSide>(load, std::move(*node));
  if (const Reported<> filled = side->fill(); !filled) return report(filled.error());
  if (const Reported<> connected = side->connect(); !connected) return report(connected.error());
  return side;
}

}  // namespace refract::bench
