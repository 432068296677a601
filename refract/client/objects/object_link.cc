// SPDX-License-Identifier: Apache-2.0
#include "refract/client/objects/object_link.h"

#include <utility>

#include "refract/memory/heap.h"
#include "refract/memory/uses.h"

namespace refract::client {

ObjectLink::ObjectLink(runtime::Shard& shard, const TransportRow& row, const TransportRequest& request,
                       Paths paths, std::unique_ptr<Transport> transport)
    : PinningLink(shard, row, request, std::move(transport)),
      timeout_ns_(request.timeout_ns),
      paths_(paths),
      lender_(this->transport().domain()),
      calls_(session(), shard, {.timeout_ns = request.timeout_ns, .lender = &lender_, .is_given_up = [this] {
                                  return has_server_given_up();
                                }}) {}

Reported<ObjectLink::Owned> ObjectLink::begin(runtime::Shard& shard, const TransportRow& row,
                                              const TransportRequest& request, Paths paths) {
  auto transport = row.begin(request);
  if (!transport) return report(std::move(transport).error());
  Owned link(new ObjectLink(shard, row, request, paths, std::move(*transport)));
  link->join_shard();
  return link;
}

void ObjectLink::come_up() {
  if (paths_ != Paths::kAuto) return;
  const fabric::Channel::LocalView view = transport().channel().local_view();
  WidePins* const pins = transport().wide_pins();
  if (pins == nullptr || view.base == nullptr || view.bytes == 0) return;
  if (!Heap::check_header({view.base, view.bytes})) return;
  wide_pins_ = pins;
  // Records are short: they are copied, and nothing of the table is pinned.
  memory_.emplace(view.base, view.bytes, nullptr);
  const Clock& clock = store_clock_.emplace(shard().clock(), time_offset_ns(view.base));
  reader_ = &reader_memory_.emplace(*memory_, *pins, clock);
}

void ObjectLink::note_change() noexcept {
  uses_left_ = reader_ != nullptr ? transport().reads_per_use() : 0;
  if (uses_left_ > 0) uses_ = transport().uses();
}

void ObjectLink::end() noexcept {
  reader_ = nullptr;
  uses_left_ = 0;
}

void ObjectLink::write_use(uint64_t object_at) noexcept {
  uses_left_ = transport().reads_per_use();
  if (uses_left_ > 0) uses_->write(object_at);
}

bool ObjectLink::refresh() noexcept {
  if (state() == State::kEnded || !memory_) return false;
  fabric::Channel& channel = transport().channel();
  (void)channel.refresh_local_view();
  // An answer to an earlier question may have mapped it already.
  const uint64_t bytes = channel.local_view().bytes;
  if (bytes <= memory_->bytes()) return false;
  memory_->set_bytes(bytes);
  return true;
}

}  // namespace refract::client
