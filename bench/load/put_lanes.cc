// SPDX-License-Identifier: Apache-2.0
#include "bench/load/put_lanes.h"

#include <utility>

#include "refract/base/clock.h"

namespace refract::bench {

PutLanes::PutLanes(uint64_t entries) : shard_(system_clock()), draw_(4711, entries) {}

PutLanes::~PutLanes() {
  end();
  // A client must not go in the turn in which its last operation ended.
  (void)shard_.poll_once();
}

Reported<std::unique_ptr<PutLanes>> PutLanes::connect(const std::string& socket_path, uint64_t entries) {
  std::unique_ptr<PutLanes> lanes(new PutLanes(entries));
  auto client = runtime::block_on(lanes->shard_, AsyncClient::connect(lanes->shard_, socket_path, {}));
  if (!client) return report(client.error());
  lanes->client_ = std::move(*client);
  return lanes;
}

void PutLanes::begin(size_t lanes) {
  is_ending_ = false;
  for (size_t i = 0; i < lanes; ++i) shard_.spawn(put_on(*this));
}

void PutLanes::end() {
  is_ending_ = true;
  (void)shard_.run_until([this] { return under_way_ == 0; });
}

runtime::Task<> PutLanes::put_on(PutLanes& lanes) {
  ++lanes.under_way_;
  while (!lanes.is_ending_ && lanes.trouble_ == Code::kOk) {
    const uint64_t index = lanes.draw_.next();
    const Key key = Key::of(index);
    const Value value = Value::of(index);
    const Result<uint64_t> put = co_await lanes.client_->put(key.text(), value.text());
    if (!put) lanes.trouble_ = put.code();
    ++lanes.done_;
  }
  --lanes.under_way_;
}

}  // namespace refract::bench
