// SPDX-License-Identifier: Apache-2.0
// The ways to reach an owner of objects that the suite of conformance.h runs over.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "refract/fabric/shm/test_node.h"
#include "refract/fabric/tcp/test_node.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/object/direct/direct_objects.h"
#include "refract/object/testing/conformance.h"
#include "refract/object/testing/test_object_service.h"
#include "refract/object/testing/test_sim_node.h"

namespace refract::object {
namespace {

// Calls over the loopback provider, in virtual time.
class LoopbackWay : public ObjectWay {
 public:
  explicit LoopbackWay(const fabric::LoopbackOptions& link)
      : served_({.chunks = kChunks, .chunks_max = kChunks, .limit = kLimit, .link = link}),
        open_(*served_.client_domain, "server", served_.shard, true) {}

  [[nodiscard]] ObjectCalls& calls() override { return open_.calls(); }
  [[nodiscard]] runtime::Shard& shard() override { return served_.shard; }
  [[nodiscard]] size_t message_bytes_max() override {
    return open_.channel().capabilities().message_bytes_max;
  }
  [[nodiscard]] test::Owner& owner() override { return *served_.owner; }

 protected:
  [[nodiscard]] test::Served& served() noexcept { return served_; }

 private:
  test::Served served_;
  OpenCalls open_;
};

// Gets by plain loads and a pin, as a client on the owner's host does.
class DirectGets {
 public:
  DirectGets(const std::byte* base, const Clock& clock)
      : base_(base),
        memory_(base, ObjectWay::kChunks * kChunkBytes, nullptr),
        objects_(memory_, pins_, clock) {}

  [[nodiscard]] Result<ObjectWay::Got> get(std::string_view id) {
    const auto held = objects_.hold(test::as_bytes(id));
    if (held.code != Code::kOk) return fail(held.code);
    const ObjectParts parts{.body_bytes = held.record.body_bytes,
                            .metadata_bytes = held.record.metadata_bytes,
                            .id_bytes = static_cast<uint16_t>(id.size())};
    ObjectWay::Got got{.object = {.object_at = held.record.object_at,
                                  .birth = held.record.birth,
                                  .body_bytes = parts.body_bytes,
                                  .metadata_bytes = static_cast<uint32_t>(parts.metadata_bytes),
                                  .flags = 0},
                       .bytes = {}};
    const std::byte* const body = base_ + held.record.object_at + ObjectParts::body_at();
    got.bytes.assign(body, body + parts.filled_bytes());
    objects_.let_go(held.pin);
    return got;
  }

 private:
  const std::byte* base_;
  std::unique_ptr<PinTable> table_ = std::make_unique<PinTable>();
  PinWriter first_{table_.get()};
  WidePins pins_{first_};
  kv::MappedMemory memory_;
  DirectObjects<kv::MappedMemory> objects_;
};

class DirectWay final : public LoopbackWay {
 public:
  DirectWay() : LoopbackWay({.depth = 64, .message_bytes_max = 32 * 1024, .reads_bypass_cpu = true}) {}
  [[nodiscard]] Result<Got> get(std::string_view id) override { return gets_.get(id); }

 private:
  DirectGets gets_{served().base(), served().clock};
};

// Calls over the simulated network, whose readers see the owner's stores late and torn.
class SimWay final : public ObjectWay {
 public:
  explicit SimWay(const sim::WorldOptions& options) : world_(options) {}

  [[nodiscard]] ObjectCalls& calls() override { return open_.calls(); }
  [[nodiscard]] runtime::Shard& shard() override { return host_.shard(); }
  [[nodiscard]] size_t message_bytes_max() override { return world_.options().message_bytes_max; }
  [[nodiscard]] test::Owner& owner() override { return *node_.process; }

 private:
  sim::World world_;
  test::SimNode node_{world_, kLimit};
  sim::Host& host_ = world_.add_host("client");
  fabric::Dispatcher dispatcher_{host_.domain(), host_.shard()};
  OpenCalls open_{host_.domain(), "server", host_.shard(), true};
};

// No thread sleeps: what meets clients at the other end is this thread's work, too.
class Wakeful final : public runtime::Idler {
 public:
  explicit Wakeful(std::function<void()> pump) : pump_(std::move(pump)) {}
  [[nodiscard]] bool idle(uint64_t) noexcept override {
    pump_();
    return true;
  }

 private:
  std::function<void()> pump_;
};

// Calls over TCP, both ends in this thread.
class TcpWay final : public ObjectWay {
 public:
  [[nodiscard]] ObjectCalls& calls() override { return open_.calls(); }
  [[nodiscard]] runtime::Shard& shard() override { return shard_; }
  [[nodiscard]] size_t message_bytes_max() override {
    return open_.channel().capabilities().message_bytes_max;
  }
  [[nodiscard]] test::Owner& owner() override { return owner_; }

 private:
  fabric::tcp::TestNode node_;
  Wakeful idler_{[this] { node_.pump(); }};
  runtime::Shard shard_{system_clock(), {.idler = &idler_}};
  OwnersMemory memory_{system_clock()};
  test::Owner owner_{shard_, node_.server(), system_clock(), memory_.options()};
  std::unique_ptr<fabric::tcp::ClientDomain> domain_ =
      refract::test::needed(fabric::tcp::ClientDomain::create({}));
  fabric::Dispatcher dispatcher_{*domain_, shard_};
  OpenCalls open_{*domain_, node_.address(), shard_, true};
};

// Calls over shared memory, both ends in this thread: what is filled lies in a file that the owner maps, and
// gets are loads.
class ShmWay final : public ObjectWay {
 public:
  [[nodiscard]] Result<Got> get(std::string_view id) override { return gets_.get(id); }
  [[nodiscard]] ObjectCalls& calls() override { return open_.calls(); }
  [[nodiscard]] runtime::Shard& shard() override { return shard_; }
  [[nodiscard]] size_t message_bytes_max() override {
    return open_.channel().capabilities().message_bytes_max;
  }
  [[nodiscard]] bool fills_files() override { return true; }
  [[nodiscard]] test::Owner& owner() override { return owner_; }

 private:
  fabric::shm::TestNode node_;
  Wakeful idler_{[this] { node_.meeting().poll(); }};
  runtime::Shard shard_{system_clock(), {.idler = &idler_}};
  OwnersMemory memory_{system_clock()};
  test::Owner owner_{shard_, node_.server(), system_clock(), memory_.options()};
  std::unique_ptr<fabric::shm::ClientDomain> domain_ = fabric::shm::make_client();
  fabric::Dispatcher dispatcher_{*domain_, shard_};
  OpenCalls open_{*domain_, node_.path(), shard_, true};
  DirectGets gets_{memory_.base(), system_clock()};
};

std::vector<Way> ways() {
  std::vector<Way> all;
  const auto add_loopback = [&all](std::string name, const fabric::LoopbackOptions& link) {
    all.push_back({std::move(name), [link] { return std::make_unique<LoopbackWay>(link); }});
  };
  add_loopback("small_messages", {.depth = 64, .message_bytes_max = 2048, .one_sided_bytes_min = 512});
  add_loopback("large_messages",
               {.depth = 64, .message_bytes_max = 32 * 1024, .one_sided_bytes_min = 64 * 1024});
  add_loopback("reads", {.depth = 64, .message_bytes_max = 4096, .reads_bypass_cpu = true});
  all.push_back({"direct", [] { return std::make_unique<DirectWay>(); }});
  const auto add_sim = [&all](std::string name, const sim::WorldOptions& options) {
    all.push_back({std::move(name), [options] { return std::make_unique<SimWay>(options); }});
  };
  add_sim("sim", {.seed = 1, .message_bytes_max = 16 * 1024});
  add_sim("sim_windows", {.seed = 2,
                          .message_bytes_max = 16 * 1024,
                          .one_sided_bytes_min = 512,
                          .one_sided_needs_target = true});
  all.push_back({"tcp", [] { return std::make_unique<TcpWay>(); }});
  all.push_back({"shm", [] { return std::make_unique<ShmWay>(); }});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ways, ObjectConformance, testing::ValuesIn(ways()), name_of_way);

}  // namespace
}  // namespace refract::object
