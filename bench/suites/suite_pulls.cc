// SPDX-License-Identifier: Apache-2.0
#include "bench/suites/suite_pulls.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bench/suites/suite_testbed.h"

#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/memory/writer.h"
#include "refract/object/transfer/object_transfer.h"
#include "refract/rpc/message.h"
#include "refract/rpc/server.h"
#include "refract/rpc/session.h"

namespace refract::bench {
namespace {

using object::TransferWish;
using object::wire::TransferMethod;
using runtime::Task;

constexpr uint64_t kSocketPieceBytes = 4 * kKiB;
constexpr uint64_t kOwnMessageBytes = 8 * kKiB;  // What our provider for devices puts into a message.
constexpr uint64_t kPageBytes = 4 * kKiB;
constexpr uint64_t kHeadBytesMax = 256;  // Of a message, beside an object's bytes.
constexpr uint16_t kPullRegion = 0x9000;
// Where the switch from messages to READs is looked for: so many sizes in each octave.
constexpr uint64_t kSwitchGrainBytes = 64;
constexpr uint64_t kSwitchLastBytes = kMiB;
constexpr int kSwitchSteps = 4;

struct DesignName {
  std::string_view name;
  PullDesign design;
};
constexpr std::array<DesignName, 5> kDesigns = {{{"socket", PullDesign::kSocket},
                                                 {"send", PullDesign::kSend},
                                                 {"send-pieces", PullDesign::kSendPieces},
                                                 {"read", PullDesign::kRead},
                                                 {"read-each", PullDesign::kReadEach}}};

struct CostName {
  std::string_view name;
  double PullCosts::* cost;
};
constexpr std::array<CostName, 10> kCosts = {{{"socket-piece", &PullCosts::socket_piece_us},
                                              {"socket-trip", &PullCosts::socket_trip_us},
                                              {"local-trip", &PullCosts::local_trip_us},
                                              {"message", &PullCosts::message_us},
                                              {"copy-KiB", &PullCosts::copy_KiB_us},
                                              {"register", &PullCosts::register_us},
                                              {"register-page", &PullCosts::register_page_us},
                                              {"release", &PullCosts::release_us},
                                              {"release-page", &PullCosts::release_page_us},
                                              {"buffer-KiB", &PullCosts::buffer_KiB}}};

uint64_t ns_of_us(double us) noexcept {
  return static_cast<uint64_t>(std::llround(us * 1e3));
}

bool is_by_reads(PullDesign design) noexcept {
  return design == PullDesign::kRead || design == PullDesign::kReadEach;
}

uint64_t bytes_of_buffer(const PullCosts& costs) noexcept {
  return static_cast<uint64_t>(costs.buffer_KiB * kKiB);
}

uint64_t pieces_of(uint64_t bytes, uint64_t piece_bytes) noexcept {
  return std::max<uint64_t>((bytes + piece_bytes - 1) / piece_bytes, 1);
}

// What each end of a transfer takes, beside the network.
class PullWork {
 public:
  PullWork(const Suite& suite, PullDesign design, const PullCosts& costs)
      : design_(design),
        costs_(costs),
        network_ns_(2 * one_way_ns(suite.testbed, 0)),
        bytes_per_us_(suite.testbed.port_gbit_per_s * 125) {}

  [[nodiscard]] sim::Work of_holder(const sim::Arrival& arrival) const noexcept;
  [[nodiscard]] sim::Work of_puller(const sim::Arrival& arrival) const noexcept;
  void begin(uint64_t bytes) noexcept { object_bytes_ = bytes; }
  // At the puller: in front of the transfer, the look-up at the directory's server and the object's creation
  // in its own store; behind it, the seal, and what it has registered goes.
  [[nodiscard]] uint64_t before_ns() const noexcept {
    return ns_of_us(costs_.socket_trip_us + costs_.local_trip_us) + network_ns_;
  }
  [[nodiscard]] uint64_t behind_ns() const noexcept { return ns_of_us(costs_.local_trip_us) + release_ns(); }

 private:
  // Of the `bytes` of one message or of its part of a stream.
  [[nodiscard]] uint64_t bytes_ns(uint64_t bytes) const noexcept {
    if (is_by_reads(design_)) return ns_of_us(costs_.message_us);
    if (design_ == PullDesign::kSocket) {
      return ns_of_us(costs_.socket_piece_us) * pieces_of(bytes, kSocketPieceBytes);
    }
    return ns_of_us(costs_.message_us + costs_.copy_KiB_us * static_cast<double>(bytes) / kKiB);
  }
  // One set of buffers is filled again when all of it has come, was copied out, and the sender knows. What
  // comes behind the first is asked for when that was copied out.
  [[nodiscard]] uint64_t drained_ns(uint64_t offset) const noexcept {
    const uint64_t bytes = bytes_of_buffer(costs_);
    if (design_ != PullDesign::kSend || offset <= bytes) return 0;
    return network_ns_ + ns_of_us(static_cast<double>(bytes) / bytes_per_us_) + bytes_ns(bytes);
  }
  [[nodiscard]] double pages() const noexcept {
    return static_cast<double>(pieces_of(object_bytes_, kPageBytes));
  }
  [[nodiscard]] uint64_t register_ns() const noexcept {
    if (design_ != PullDesign::kReadEach) return 0;
    return ns_of_us(costs_.register_us + costs_.register_page_us * pages());
  }
  [[nodiscard]] uint64_t release_ns() const noexcept {
    if (design_ != PullDesign::kReadEach) return 0;
    return ns_of_us(costs_.release_us + costs_.release_page_us * pages());
  }
  [[nodiscard]] uint64_t reads_ns() const noexcept {
    return is_by_reads(design_) ? ns_of_us(costs_.message_us) * pieces_of(object_bytes_, kMiB) : 0;
  }

  PullDesign design_;
  PullCosts costs_;
  uint64_t network_ns_;  // There and back.
  double bytes_per_us_;
  uint64_t object_bytes_ = 0;
};

// The request to begin comes over a socket in all designs, and the holder asks its store for the object.
sim::Work PullWork::of_holder(const sim::Arrival& arrival) const noexcept {
  if (arrival.op != fabric::Op::kSend) return {};
  const auto message = rpc::decode(arrival.message);
  if (!message) return {};
  switch (static_cast<TransferMethod>(message->header.method)) {
    case TransferMethod::kTransfer: {
      object::wire::TransferRequest request;
      std::memcpy(&request, message->payload.data(), sizeof(request));
      return {.core_ns = bytes_ns(request.bytes) + register_ns(),
              .delay_ns = ns_of_us(costs_.socket_trip_us / 2 + costs_.local_trip_us)};
    }
    case TransferMethod::kData: {
      object::wire::DataRequest request;
      std::memcpy(&request, message->payload.data(), sizeof(request));
      return {.core_ns = drained_ns(request.offset) + bytes_ns(request.bytes), .delay_ns = 0};
    }
    case TransferMethod::kDone:
      return {.core_ns = release_ns(), .delay_ns = 0};
    default:
      return {};
  }
}

// Over a socket a message with the object's lengths comes in front of the stream.
sim::Work PullWork::of_puller(const sim::Arrival& arrival) const noexcept {
  if (arrival.op != fabric::Op::kSend) return {};
  const auto message = rpc::decode(arrival.message);
  if (!message) return {};
  const uint64_t bytes = message->payload.size();
  switch (static_cast<TransferMethod>(message->header.method)) {
    case TransferMethod::kTransfer: {
      const uint64_t brought = is_by_reads(design_) ? 0 : bytes - sizeof(object::wire::TransferReply);
      const uint64_t delay_ns = design_ == PullDesign::kSocket ? ns_of_us(costs_.socket_trip_us / 2) : 0;
      return {.core_ns = bytes_ns(brought) + register_ns() + reads_ns(), .delay_ns = delay_ns};
    }
    case TransferMethod::kData:
      return {.core_ns = bytes_ns(bytes), .delay_ns = 0};
    default:
      return {};
  }
}

// Gives the first bytes of one piece of memory, as many as it is asked for.
class PullHolder final : private rpc::Service {
 public:
  // All outlive it.
  PullHolder(runtime::Shard& shard, fabric::Domain& domain, std::span<std::byte> bytes)
      : bytes_(bytes), server_(*this, shard), dispatcher_(domain, shard, &server_) {}
  [[nodiscard]] Reported<> start(fabric::Domain& domain) {
    const Reported<RemoteKey> key = domain.register_region(
        {.region = kPullRegion, .base = bytes_.data(), .bytes = bytes_.size(), .rights = {.read = true}});
    if (!key) return report(key.error());
    key_ = *key;
    return {};
  }

 private:
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    for (const rpc::IncomingCall& call : calls) answer(call);
  }
  void answer(const rpc::IncomingCall& call) noexcept {
    switch (static_cast<TransferMethod>(call.header.method)) {
      case TransferMethod::kTransfer:
        return begin(call);
      case TransferMethod::kData: {
        object::wire::DataRequest request;
        std::memcpy(&request, call.payload.data(), sizeof(request));
        return server_.reply(call.from, Code::kOk, {}, bytes_.subspan(request.offset, request.bytes));
      }
      default:
        return server_.reply(call.from, Code::kOk);
    }
  }
  void begin(const rpc::IncomingCall& call) noexcept {
    object::wire::TransferRequest request;
    std::memcpy(&request, call.payload.data(), sizeof(request));
    const bool by_reads = request.by == object::wire::TransferBy::kReads;
    const bool is_whole = !by_reads && request.bytes == request.body_bytes;
    const object::wire::TransferReply reply{
        .transfer = is_whole ? 0U : 1U, .digest = 0, .pieces = by_reads ? 1U : 0U, .reserved = 0};
    const object::wire::TransferPiece piece{.address = RemotePointer::at(kPullRegion, 0).bits,
                                            .key = key_.bits,
                                            .offset = 0,
                                            .bytes = request.body_bytes};
    server_.reply(call.from, Code::kOk, std::as_bytes(std::span(&reply, 1)),
                  by_reads ? std::as_bytes(std::span(&piece, 1))
                           : std::span<const std::byte>(bytes_).first(request.bytes));
  }

  std::span<std::byte> bytes_;
  RemoteKey key_;
  rpc::Server server_;
  fabric::Dispatcher dispatcher_;
};

// One system: a holder, a puller and the network between them.
class PullTestbed {
 public:
  PullTestbed(const Suite& suite, const System& system, const PullCosts& costs, uint64_t bytes_max)
      : design_(*pull_design_of(system.design)),
        work_(suite, design_, costs),
        source_(bytes_max),
        target_(bytes_max),
        world_(options_of(suite, costs)),
        holder_(world_.add_host("holder")),
        puller_(world_.add_host("puller")) {
    for (size_t i = 0; i < source_.size(); ++i) source_[i] = static_cast<std::byte>(i * 31 + i / 251);
    limits_.message_bytes = design_ == PullDesign::kSocket ? kSocketPieceBytes
                            : design_ == PullDesign::kSend ? bytes_of_buffer(costs)
                                                           : kOwnMessageBytes;
    install(holder_, suite,
            [this](const sim::Arrival& arrival) noexcept { return work_.of_holder(arrival); });
    install(puller_, suite,
            [this](const sim::Arrival& arrival) noexcept { return work_.of_puller(arrival); });
  }
  PullTestbed(const PullTestbed&) = delete;
  PullTestbed& operator=(const PullTestbed&) = delete;

  [[nodiscard]] Reported<> start() {
    auto& holder =
        holder_.emplace<PullHolder>(holder_.shard(), holder_.domain(), std::span<std::byte>(source_));
    if (const Reported<> started = holder.start(holder_.domain()); !started) return started;
    puller_.emplace<fabric::Dispatcher>(puller_.domain(), puller_.shard());
    const Reported<fabric::Channel*> channel = puller_.domain().connect(holder_.name());
    if (!channel) return report(channel.error());
    session_ = &puller_.emplace<rpc::Session>(**channel, puller_.shard());
    if (world_.run_until([this] { return session_->state() == rpc::Session::State::kOpen; })) return {};
    return report(Code::kUnavailable, "the simulated holder cannot be reached");
  }
  // Microseconds from the look-up to the seal: the mean of so many pulls, one after the other. The first one
  // finds out what the path needs, and does not count.
  [[nodiscard]] Reported<double> pull(uint64_t bytes, uint64_t times) {
    uint64_t total_ns = 0;
    for (uint64_t i = 0; i <= times; ++i) {
      Pulled pulled;
      work_.begin(bytes);
      std::ranges::fill(std::span(target_).first(bytes), std::byte{0});
      world_.spawn(puller_, pull_one(bytes, pulled));
      if (!world_.run_until([&pulled] { return pulled.is_over; }) || pulled.code != Code::kOk)
        return report(pulled.code, fmt::format("a simulated pull of {} bytes failed", bytes));
      if (std::memcmp(source_.data(), target_.data(), bytes) != 0)
        return report(Code::kCorrupt, fmt::format("a simulated pull of {} bytes brought others", bytes));
      if (i > 0) total_ns += pulled.ns;
    }
    return static_cast<double>(total_ns) * 1e-3 / static_cast<double>(times);
  }

 private:
  struct Pulled {
    Code code = Code::kUnavailable;
    uint64_t ns = 0;
    bool is_over = false;
  };

  [[nodiscard]] static sim::WorldOptions options_of(const Suite& suite, const PullCosts& costs) {
    sim::WorldOptions options = world_of(suite, 0);
    const uint64_t most = std::max(bytes_of_buffer(costs), kOwnMessageBytes) + kHeadBytesMax;
    options.message_bytes_max = static_cast<uint32_t>(most);
    return options;
  }
  static void install(sim::Host& host, const Suite& suite,
                      std::function<sim::Work(const sim::Arrival&)> work) {
    sim::MachineOptions machine = machine_of(suite.testbed);
    machine.one_sided_gap_ns = ns_of_us(suite.testbed.read_gap_us);
    machine.work = std::move(work);
    host.install(std::move(machine));
  }
  Task<> pull_one(uint64_t bytes, Pulled& pulled) {
    runtime::Shard& shard = puller_.shard();
    const uint64_t began_ns = shard.refresh_now();
    co_await shard.sleep_for(work_.before_ns());
    std::vector<object::TransferSource> sources;
    sources.push_back({.name = "holder", .session = session_, .path = &path_});
    object::ObjectTransfer transfer(shard,
                                    {.id = std::as_bytes(std::span("object", 6)),
                                     .birth = 1,
                                     .parts = {.body_bytes = bytes, .metadata_bytes = 0, .id_bytes = 6},
                                     .writer = writer_,
                                     .room = std::span(target_).first(bytes),
                                     .wish = is_by_reads(design_) ? TransferWish::kRead : TransferWish::kSend,
                                     .limits = limits_},
                                    std::move(sources));
    const object::TransferOutcome outcome = co_await transfer.run();
    pulled.code = outcome.code;
    co_await shard.sleep_for(work_.behind_ns());
    pulled.ns = shard.refresh_now() - began_ns;
    pulled.is_over = true;
  }

  PullDesign design_;
  PullWork work_;
  object::TransferLimits limits_;
  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  Writer writer_{target_.data()};
  object::PathMemory path_;
  sim::World world_;
  sim::Host& holder_;
  sim::Host& puller_;
  rpc::Session* session_ = nullptr;
};

std::string pull_size_text(uint64_t bytes) {
  if (bytes % kMiB == 0) return fmt::format("{}MiB", bytes / kMiB);
  return bytes % kKiB == 0 ? fmt::format("{}KiB", bytes / kKiB) : fmt::format("{}B", bytes);
}

const System& named(const Suite& suite, std::string_view name) {
  return *std::ranges::find(suite.systems, name, &System::name);
}

// The two systems of which one is asked from which size on it takes no longer.
class SwitchPoint {
 public:
  SwitchPoint(const Suite& suite, const System& reads, const PullCosts& costs)
      : reads_(suite, reads, costs, kSwitchLastBytes),
        messages_(suite, named(suite, reads.against), costs, kSwitchLastBytes) {}

  // KiB, of all sizes up to the last. What lies beyond that is twice the last.
  [[nodiscard]] Reported<double> find() {
    for (PullTestbed* testbed : {&reads_, &messages_}) {
      if (const Reported<> started = testbed->start(); !started) return report(started.error());
    }
    // From the longest down, so that the paths are known; then between the last two.
    uint64_t good = 2 * kSwitchLastBytes;
    uint64_t bad = 0;
    for (int step = 0; bad == 0; ++step) {
      const double size = kSwitchLastBytes * std::exp2(-static_cast<double>(step) / kSwitchSteps);
      const uint64_t bytes = round_up(static_cast<uint64_t>(size), kSwitchGrainBytes);
      if (bytes <= kSwitchGrainBytes) break;
      const Reported<bool> is_good = reads_win(bytes);
      if (!is_good) return report(is_good.error());
      (*is_good ? good : bad) = bytes;
    }
    while (good <= kSwitchLastBytes && good - bad > kSwitchGrainBytes) {
      const uint64_t bytes = round_up((good + bad) / 2, kSwitchGrainBytes);
      if (bytes == good) break;
      const Reported<bool> is_good = reads_win(bytes);
      if (!is_good) return report(is_good.error());
      (*is_good ? good : bad) = bytes;
    }
    return static_cast<double>(good) / kKiB;
  }

 private:
  [[nodiscard]] Reported<bool> reads_win(uint64_t bytes) {
    const Reported<double> reads_us = reads_.pull(bytes, 1);
    if (!reads_us) return report(reads_us.error());
    const Reported<double> messages_us = messages_.pull(bytes, 1);
    if (!messages_us) return report(messages_us.error());
    return *reads_us <= *messages_us;
  }

  PullTestbed reads_;
  PullTestbed messages_;
};

}  // namespace

std::optional<PullDesign> pull_design_of(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kDesigns, name, &DesignName::name);
  if (found == kDesigns.end()) return std::nullopt;
  return found->design;
}

Reported<PullCosts> pull_costs_of(const Suite& suite) {
  PullCosts costs;
  for (const StepCost& cost : suite.costs) {
    const auto* const known = std::ranges::find(kCosts, cost.name, &CostName::name);
    if (known == kCosts.end())
      return report(Code::kInvalidArgument, fmt::format("'{}' is no cost of pulls", cost.name));
    if (std::ranges::count(suite.costs, cost.name, &StepCost::name) > 1)
      return report(Code::kInvalidArgument, fmt::format("the cost '{}' is there twice", cost.name));
    costs.*known->cost = cost.value;
  }
  for (const CostName& known : kCosts) {
    if (costs.*known.cost <= 0)
      return report(Code::kInvalidArgument, fmt::format("the cost '{}' is missing, or 0", known.name));
  }
  return costs;
}

Reported<std::vector<Measured>> simulate_pulls(const Suite& suite) {
  const Reported<PullCosts> costs = pull_costs_of(suite);
  if (!costs) return report(costs.error());
  std::vector<Measured> measured;
  for (const System& system : suite.systems) {
    PullTestbed testbed(suite, system, *costs, std::ranges::max(suite.load.sizes));
    if (const Reported<> started = testbed.start(); !started) return report(started.error());
    for (const uint64_t bytes : suite.load.sizes) {
      const Reported<double> us = testbed.pull(bytes, suite.load.operations);
      if (!us) return report(us.error());
      measured.push_back({.system = system.name,
                          .place = {},
                          .what = "rate-" + pull_size_text(bytes),
                          .unit = "MB/s",
                          .value = static_cast<double>(bytes) / *us});
    }
    if (system.against.empty()) continue;
    SwitchPoint point(suite, system, *costs);
    const Reported<double> found = point.find();
    if (!found) return report(found.error());
    measured.push_back(
        {.system = system.name, .place = {}, .what = "switch", .unit = "KiB", .value = *found});
  }
  return measured;
}

Reported<std::vector<Varied>> vary(const Suite& suite) {
  std::vector<Varied> all;
  // What no figure names is not asked for again.
  Suite named_sizes = suite;
  named_sizes.load.operations = 1;
  std::erase_if(named_sizes.load.sizes, [&suite](uint64_t bytes) {
    return std::ranges::find(suite.figures, "rate-" + pull_size_text(bytes), &Figure::what) ==
           suite.figures.end();
  });
  for (size_t i = 0; i < suite.costs.size(); ++i) {
    for (const double times : {0.5, 2.0}) {
      Suite changed = named_sizes;
      changed.costs[i].value *= times;
      const Reported<SuiteResult> result = run_suite(changed, SuiteFabric::kSim);
      if (!result) return report(result.error());
      Varied& varied = all.emplace_back(Varied{.cost = &suite.costs[i], .times = times, .ours = {}});
      for (const Compared& compared : result->compared) varied.ours.push_back(compared.ours);
    }
  }
  return all;
}

}  // namespace refract::bench
