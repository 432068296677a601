// SPDX-License-Identifier: Apache-2.0
// Arbitrary calls of members to a node of three, and arbitrary answers to its own, while its clients make,
// get and delete. Nothing aborts, each call is answered once and by a code of the contract, and the store
// stays sound, also where the node ends in the middle.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/check.h"
#include "refract/object/testing/broadcast_bodies.h"
#include "refract/object/testing/rank_bodies.h"
#include "refract/object/testing/test_directory.h"

namespace {

using refract::Code;
using namespace refract::object;  // NOLINT(google-build-using-namespace)
using Method = wire::DirectoryMethod;
using test::ToldNode;

constexpr size_t kCallsMax = 48;
constexpr uint64_t kLatestVersion = test::kListVersion + 3;

bool is_of_the_contract(Code code) {
  constexpr std::array kCodes = {Code::kOk,          Code::kNotFound,     Code::kVersionMismatch,
                                 Code::kNoSpace,     Code::kOverloaded,   Code::kInvalidArgument,
                                 Code::kUnsupported, Code::kMalformed,    Code::kUnavailable,
                                 Code::kCancelled,   Code::kAccessDenied, Code::kExists,
                                 Code::kInvalidated};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : rest_(bytes) {}
  [[nodiscard]] bool is_over() const { return rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t first = rest_[0];
    rest_ = rest_.subspan(1);
    return first;
  }
  // Two bytes of length, then as many bytes as there are.
  std::string text() {
    const size_t wanted = byte() | static_cast<size_t>(byte()) << 8;
    const size_t bytes = std::min({wanted, rest_.size(), size_t{2000}});
    const std::string text(reinterpret_cast<const char*>(rest_.data()), bytes);
    rest_ = rest_.subspan(bytes);
    return text;
  }

 private:
  std::span<const uint8_t> rest_;
};

template <typename T>
void put_where_zero(std::string& body, size_t at, T value) {
  T there{};
  if (body.size() < at + sizeof(T)) return;
  std::memcpy(&there, &body[at], sizeof(T));
  if (there == 0) std::memcpy(&body[at], &value, sizeof(T));
}

// Two of each home.
const std::vector<std::string>& ids_of(const ToldNode& node) {
  static const std::vector<std::string> ids = [&] {
    std::vector<std::string> found;
    for (const char home : {'a', 'b', 'c'}) {
      for (int number = 0; number < 2; ++number) {
        found.push_back(test::id_homed_at(node, std::string(1, home), number));
      }
    }
    return found;
  }();
  return ids;
}

class World {
 public:
  World() : ids_(ids_of(node_)) {
    node_.says = [this](uint16_t method, std::string_view body) { return say(method, body); };
    for (size_t i = 0; i < members_.size(); ++i) {
      members_[i].peer = node_.connect();
      const std::string hello = test::hello_body(node_, i == 0 ? "b" : "c");
      const test::Answer answer = node_.call(members_[i].peer, Method::kHello, hello);
      REFRACT_CHECK(answer.code == Code::kOk);
      members_[i].stream = answer.as<wire::HelloReply>().stream;
    }
    client_.peer = node_.connect();
  }

  void run(Input input) {
    while (!input.is_over()) step(input);
    if (ends_at_once_) return;
    node_.pass(15 * refract::kSecond_ns);
    for (Caller* caller : {&members_[0], &members_[1], &client_}) {
      REFRACT_CHECK(caller->peer->state() == refract::rpc::Session::State::kOpen);
      for (const auto& [id, is_checked] : caller->calls) {
        REFRACT_CHECK(caller->peer->done(id));
        const refract::runtime::OpResult result = caller->peer->finish(id);
        REFRACT_CHECK(!is_checked || is_of_the_contract(result.code));
      }
      caller->calls.clear();
    }
    REFRACT_CHECK(node_.owner().is_sound());
  }

 private:
  struct Caller {
    ToldNode::Peer peer;
    uint64_t stream = 0;
    std::vector<std::pair<uint64_t, bool>> calls;  // Whether its code must be one of a directory's.
  };

  void step(Input& input) {
    const uint8_t what = input.byte();
    switch (what % 8) {
      case 0:
      case 1:
        return call(members_[what % 8], input);
      case 2:
        return node_.pass(input.byte() * 20 * refract::kMillisecond_ns);
      case 3:
        return use(input);
      case 4: {
        const auto code = refract::code_from_wire(input.byte());
        answers_.emplace_back(code, input.text());
        return;
      }
      case 5:
        return node_.peers.session() == nullptr ? node_.reach() : node_.lose();
      case 6:
        if (node_.list.version < kLatestVersion) node_.follow(node_.list.version + 1);
        return;
      default:
        if (what == 15 || what == 23) return rank(input, what == 23);
        if (what == 31 || what == 39) return broadcast(input, what == 39);
        if (what == 47) return order(input);
        if (what == 55 || what == 63) return follow(input, what == 55);
        ends_at_once_ = what > 250;
        return node_.settle();
    }
  }

  // What cannot be guessed stands for itself where the input has 0: the list, and the number of the stream.
  void call(Caller& caller, Input& input) {
    // Those of transfers stand behind.
    const uint8_t number = input.byte() % 16;
    auto method = static_cast<uint16_t>(number < 10 ? wire::kDirectoryMethodsBegin + number
                                                    : wire::kTransferMethodsBegin + number - 10);
    if (number == 15) method = static_cast<uint16_t>(Method::kEstimate);
    std::string body = input.text();
    if (method >= wire::kTransferMethodsBegin)
      return start(caller, method, of_transfer(method, body, input), true);
    put_where_zero(body, 0, node_.list.version);
    if (method == static_cast<uint16_t>(Method::kHello)) {
      put_where_zero(body, offsetof(wire::HelloRequest, list_digest), node_.digest());
    }
    if (method == static_cast<uint16_t>(Method::kChanges)) {
      put_where_zero(body, offsetof(wire::ChangesRequest, stream), caller.stream);
    }
    const bool is_hello = method == static_cast<uint16_t>(Method::kHello);
    if (is_hello) {
      const test::Answer answer = node_.call(caller.peer, method, body);
      REFRACT_CHECK(is_of_the_contract(answer.code));
      if (answer.code == Code::kOk) caller.stream = answer.as<wire::HelloReply>().stream;
      return;
    }
    start(caller, method, body, true);
  }
  // An order of a broadcast, of members of the list or others.
  void order(Input& input) {
    Caller& caller = members_[input.byte() % 2];
    const std::string& id = ids_[input.byte() % ids_.size()];
    const auto object = node_.owner().store.find(test::as_bytes(id));
    const uint8_t birth = input.byte();
    const uint8_t forebears = input.byte();
    const std::string rest = input.text();
    const wire::BringRequest request{.list_version = node_.list.version,
                                     .birth = birth == 0 && object ? object->birth : birth,
                                     .plan = input.byte(),
                                     .timeout_ms = input.byte() * 100U,
                                     .piece_bytes = 64 * 1024,
                                     .id_bytes = test::short_of(id.size()),
                                     .forebears = forebears,
                                     .reserved = {}};
    start(caller, static_cast<uint16_t>(Method::kBring), test::body_of(request, id + rest), true);
  }
  // Of what is here, or coming here, or neither; or how much of it is.
  void follow(Input& input, bool begins) {
    Caller& caller = members_[input.byte() % 2];
    const uint8_t number = input.byte();
    if (!begins) {
      const wire::ProgressRequest progress{.transfer = number % 4U, .least = input.byte() * 1000U};
      return start(caller, static_cast<uint16_t>(wire::TransferMethod::kProgress), test::body_of(progress),
                   true);
    }
    const std::string& id = ids_[number % ids_.size()];
    const auto object = node_.owner().store.find(test::as_bytes(id));
    const uint8_t how = input.byte();
    const wire::FollowRequest request{
        .transfer = {.birth = object ? object->birth : how,
                     .body_bytes = object ? object->parts.body_bytes : how,
                     .offset = 0,
                     .metadata_bytes = object ? object->parts.metadata_bytes : 0,
                     .bytes = how % 2 == 0 ? uint32_t{0} : uint32_t{how},
                     .id_bytes = test::short_of(id.size()),
                     .by = how % 2 == 0 ? wire::TransferBy::kReads : wire::TransferBy::kMessages,
                     .wants_digest = 0,
                     .reserved = {}},
        .plan = input.byte(),
        .wait_ms = input.byte() * 10U,
        .reserved = 0};
    start(caller, static_cast<uint16_t>(wire::TransferMethod::kFollow), test::body_of(request, id), true);
  }
  // What cannot be guessed here: births and lengths of what the node has, where the input has no body at all,
  // and numbers of transfers, where it has 0.
  std::string of_transfer(uint16_t method, std::string body, Input& input) {
    if (method != static_cast<uint16_t>(wire::TransferMethod::kTransfer)) {
      put_where_zero(body, 0, uint64_t{1} + input.byte() % 4);
      return body;
    }
    if (!body.empty()) return body;
    const std::string& id = ids_[input.byte() % ids_.size()];
    const auto object = node_.owner().store.find(test::as_bytes(id));
    if (!object) return body;
    const uint8_t how = input.byte();
    return test::body_of(
        wire::TransferRequest{.birth = object->birth,
                              .body_bytes = object->parts.body_bytes,
                              .offset = 0,
                              .metadata_bytes = object->parts.metadata_bytes,
                              .bytes = how % 2 == 0 ? uint32_t{0} : uint32_t{how},
                              .id_bytes = test::short_of(id.size()),
                              .by = how % 2 == 0 ? wire::TransferBy::kReads : wire::TransferBy::kMessages,
                              .wants_digest = static_cast<uint8_t>(how >> 7),
                              .reserved = {}},
        id);
  }
  void use(Input& input) {
    const uint8_t what = input.byte();
    const std::string& id = ids_[input.byte() % ids_.size()];
    const auto method = [](wire::Method one) { return static_cast<uint16_t>(one); };
    const uint64_t timeout_ns = (what >> 6) * refract::kSecond_ns;
    switch (what % 6) {
      case 0:
        return start(client_, method(wire::Method::kPut), test::put_body(id, what, "red", "m"), false);
      case 1:
        return start(client_, method(wire::Method::kFetch), test::await_body(id, timeout_ns), false);
      case 2:
        return start(client_, method(wire::Method::kDelete), test::id_body(id, 0), false);
      case 3:
        return start(client_, method(wire::Method::kWhere), test::id_body(id, 0), false);
      case 4:
        return start(client_, method(wire::Method::kCreate), test::create_body(id, what, {.body = 9}), false);
      default:
        return start(client_, method(wire::Method::kEvict), test::body_of(wire::EvictRequest{100}), false);
    }
  }
  // Of ids that there may be, or with a body of the input's.
  void rank(Input& input, bool has_body) {
    const uint64_t timeout_ns = input.byte() * 20 * refract::kMillisecond_ns;
    const std::string body =
        has_body ? input.text()
                 : test::rank_body({ids_.begin(), ids_.begin() + input.byte() % 7}, timeout_ns);
    start(client_, static_cast<uint16_t>(wire::Method::kRank), body, false);
  }
  // Of an id that there may be to some nodes, or to all, or with a body of the input's.
  void broadcast(Input& input, bool has_body) {
    static const std::vector<std::string> names = {"a", "b", "c", "none"};
    const uint64_t timeout_ns = input.byte() * 20 * refract::kMillisecond_ns;
    const std::string& id = ids_[input.byte() % ids_.size()];
    std::vector<std::string> nodes;
    for (uint8_t set = input.byte() % 16; const std::string& name : names) {
      if ((set & 1) != 0) nodes.push_back(name);
      set >>= 1;
    }
    const std::string body = has_body ? input.text() : test::broadcast_body(id, nodes, timeout_ns);
    start(client_, static_cast<uint16_t>(wire::Method::kBroadcast), body, false);
  }
  void start(Caller& caller, uint16_t method, const std::string& body, bool is_checked) {
    if (caller.calls.size() == kCallsMax) return;
    const uint64_t id = caller.peer->start({.method = method, .head = test::as_bytes(body)});
    if (id != 0) caller.calls.emplace_back(id, is_checked);
    node_.settle();
  }

  // As the input has it; where it has none, as a member that agrees and has nothing.
  ToldNode::Said say(uint16_t method, std::string_view body) {
    const bool is_hello = method == static_cast<uint16_t>(Method::kHello);
    if (!answers_.empty()) {
      const ToldNode::Said said = std::move(answers_.front());
      answers_.pop_front();
      return said;
    }
    if (is_hello) {
      return {Code::kOk,
              test::body_of(
                  wire::HelloReply{
                      .list_version = node_.list.version, .stream = 1, .name_bytes = 1, .reserved = {}},
                  "b")};
    }
    wire::ChangesRequest request{};
    if (method == static_cast<uint16_t>(Method::kChanges) && body.size() >= sizeof(request)) {
      std::memcpy(&request, body.data(), sizeof(request));
      return {Code::kOk, std::string(size_t{2} * request.count, '\0')};
    }
    if (method == static_cast<uint16_t>(Method::kLookUp)) {
      return {Code::kOk, test::body_of(wire::LookUpReply{})};
    }
    if (method == static_cast<uint16_t>(Method::kEstimate)) {
      return {Code::kOk, test::body_of(wire::EstimateReply{})};
    }
    if (method == static_cast<uint16_t>(Method::kAsk)) return {Code::kOk, test::body_of(wire::AskReply{})};
    return {method >= wire::kDirectoryMethodsBegin ? Code::kOk : Code::kNotFound, ""};
  }

  ToldNode node_;
  const std::vector<std::string>& ids_;
  std::deque<ToldNode::Said> answers_;
  std::array<Caller, 2> members_;
  Caller client_;
  bool ends_at_once_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  World().run(Input(std::span(data, bytes)));
  return 0;
}
