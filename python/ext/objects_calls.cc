// SPDX-License-Identifier: Apache-2.0
#include "python/ext/objects_calls.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "python/ext/arguments.h"
#include "python/ext/buffer.h"
#include "python/ext/called.h"
#include "python/ext/errors.h"
#include "python/ext/gil.h"
#include "python/ext/pickled.h"

namespace refract::python {

namespace py = pybind11;

namespace {

// The node copies what is filled while the next piece is.
constexpr uint64_t kPieceBytes = 1024 * 1024;

// Waits for room in turns, so that a signal ends it.
template <typename T, typename Call>
Outcome<T> called_for_room(const SharedLink& link, py::handle room_timeout, Call&& call) {
  const uint64_t timeout_ms = ms_of(room_timeout, "room_timeout");
  Outcome<T> outcome;
  wait_in_slices(timeout_ms, kRoomSlice_ms, [&](uint64_t ms) {
    outcome = called<T>(link, [&] { return call(MakeOptions{.room_timeout_ms = ms}); });
    return outcome.result.code() != Code::kNoSpace;
  });
  return outcome;
}

// Copies the value into a creation, and has the node copy what is there meanwhile.
Code fill(NewObject& made, const std::vector<Pickled::Part>& parts, const std::string& metadata) {
  const std::span<std::byte> body = made.body();
  uint64_t done = 0;
  uint64_t told = 0;
  for (const Pickled::Part& part : parts) {
    if (part.at > done) std::memset(body.data() + done, 0, part.at - done);
    done = part.at;
    for (auto rest = part.bytes; !rest.empty();) {
      const auto piece = rest.first(std::min<size_t>(rest.size(), kPieceBytes));
      std::memcpy(body.data() + done, piece.data(), piece.size());
      done += piece.size();
      rest = rest.subspan(piece.size());
      if (done - told < kPieceBytes || done == body.size()) continue;
      told = done;
      const Code code = made.filled(done);
      if (code != Code::kOk) return code;
    }
  }
  if (!metadata.empty()) std::memcpy(made.metadata().data(), metadata.data(), metadata.size());
  return Code::kOk;
}

// Until a node does not answer: then they end with their connection.
void end_creations(ObjectsLink& link) noexcept {
  // Others may come and go meanwhile.
  std::vector<Creation*> done;
  for (;;) {
    const auto next = std::ranges::find_if(link.creations, [&](Creation* one) {
      return one->is_open() && std::ranges::find(done, one) == done.end();
    });
    if (next == link.creations.end()) return;
    done.push_back(*next);
    if (!(*next)->end_with_client()) return;
  }
}

const char* kind_text(ObjectNotice::Kind kind) {
  switch (kind) {
    case ObjectNotice::Kind::kThere:
      return "there";
    case ObjectNotice::Kind::kSealed:
      return "sealed";
    case ObjectNotice::Kind::kRemoved:
      return "removed";
    case ObjectNotice::Kind::kMissed:
      break;
  }
  return "missed";
}

}  // namespace

SharedLink ObjectsClient::link() const {
  if (link_ == nullptr) raise_invalid("this client was closed", "connect() again");
  return link_;
}

NewObject ObjectsClient::created(const SharedLink& link, const std::string& id, uint64_t body_bytes,
                                 size_t metadata_bytes, py::handle room_timeout, const char* call) {
  auto outcome = called_for_room<NewObject>(link, room_timeout, [&](const MakeOptions& options) {
    return link->objects.create(id, body_bytes, static_cast<uint32_t>(metadata_bytes), options);
  });
  return value_or_raise(std::move(outcome), std::string(call) + " of " + shown(id));
}

std::unique_ptr<Creation> ObjectsClient::create(py::handle id, py::handle size, py::handle metadata,
                                                py::handle room_timeout) {
  const SharedLink held = link();
  const std::string name = id_of(id);
  std::string beside = metadata_of(metadata);
  NewObject made = created(held, name, bytes_of(size, "size"), beside.size(), room_timeout, "create");
  return std::make_unique<Creation>(held, std::move(made), std::move(beside));
}

uint64_t ObjectsClient::put(py::handle id, py::handle data, py::handle metadata, py::handle room_timeout,
                            py::handle copies, py::handle copies_timeout) {
  const SharedLink held = link();
  const std::string name = id_of(id);
  const std::string beside = metadata_of(metadata);
  const Source source(data, "data");
  const uint32_t wanted = copies_of(copies);
  const uint64_t copies_timeout_ms = ms_of(copies_timeout, "copies_timeout");
  auto outcome = called_for_room<uint64_t>(held, room_timeout, [&](const MakeOptions& room) {
    MakeOptions options = room;
    options.copies = wanted;
    options.copies_timeout_ms = copies_timeout_ms;
    return held->objects.put(name, source.bytes(), beside, options);
  });
  return value_or_raise(std::move(outcome), "put of " + shown(name));
}

uint64_t ObjectsClient::put_value(py::handle id, py::handle value, py::handle metadata,
                                  py::handle room_timeout) {
  const SharedLink held = link();
  const std::string name = id_of(id);
  const std::string beside = metadata_of(metadata);
  const Pickled pickled(value);
  NewObject made = created(held, name, pickled.body_bytes(), beside.size(), room_timeout, "put_value");
  const auto parts = pickled.parts();
  auto outcome = called<uint64_t>(held, [&]() -> Result<uint64_t> {
    const uint64_t birth = made.birth();
    Code code = fill(made, parts, beside);
    if (code == Code::kOk) code = made.seal().code();
    // Here, where waiting for the node is allowed.
    made = NewObject();
    if (code != Code::kOk) return fail(code);
    return birth;
  });
  return value_or_raise(std::move(outcome), "put_value of " + shown(name));
}

py::list ObjectsClient::put_many(py::handle items) {
  const SharedLink held = link();
  const py::object all = py::reinterpret_steal<py::object>(PySequence_List(items.ptr()));
  if (!all) raise_pending();
  std::vector<std::string> ids;
  std::vector<std::string> metadata;
  std::vector<Source> sources;
  for (const py::handle item : py::reinterpret_borrow<py::list>(all)) {
    const bool is_tuple = PyTuple_Check(item.ptr()) != 0 || PyList_Check(item.ptr()) != 0;
    const size_t parts = is_tuple ? py::len(item) : 0;
    if (parts != 2 && parts != 3) raise_type("items are tuples: (id, data) or (id, data, metadata)");
    const auto one = py::reinterpret_borrow<py::sequence>(item);
    ids.push_back(id_of(one[0]));
    sources.emplace_back(one[1], "data");
    metadata.push_back(parts == 3 ? metadata_of(one[2]) : std::string());
  }
  std::vector<PutObject> puts;
  puts.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    puts.push_back({.id = ids[i], .body = sources[i].bytes(), .metadata = metadata[i]});
  }
  (void)without_gil([&] {
    held->objects.put_many(puts);
    return true;
  });
  py::list outcomes;
  for (size_t i = 0; i < puts.size(); ++i) {
    const auto& result = puts[i].result;
    if (result) {
      outcomes.append(*result);
    } else {
      outcomes.append(error_of(explain(result.code(), "put of " + shown(ids[i]))));
    }
  }
  return outcomes;
}

py::bytes ObjectsClient::new_id() {
  const SharedLink held = link();
  return id_bytes(
      value_or_raise(called<std::string>(held, [&] { return held->objects.new_id(); }), "new_id"));
}

Object ObjectsClient::got(const SharedLink& link, const std::string& id, py::handle timeout,
                          const char* call) {
  const uint64_t timeout_ms = ms_of(timeout, "timeout");
  // Loads alone: another thread that computes would keep the lock for milliseconds.
  Outcome<Object> outcome{.result = link->objects.get_at_once(id)};
  const bool is_final = outcome.result || (outcome.result.code() == Code::kNotFound && timeout_ms == 0);
  if (!is_final) {
    wait_in_slices(timeout_ms, kSlice_ms, [&](uint64_t ms) {
      outcome = called<Object>(link, [&] { return link->objects.get(id, ms); });
      return outcome.result.code() != Code::kNotFound;
    });
  }
  return value_or_raise(std::move(outcome), std::string(call) + " of " + shown(id));
}

py::object ObjectsClient::get(py::handle id, py::handle timeout) {
  const SharedLink held = link();
  return python_object(got(held, id_of(id), timeout, "get"));
}

py::object ObjectsClient::get_value(py::handle id, py::handle timeout) {
  const SharedLink held = link();
  const ObjectBuffer object(std::make_shared<const Object>(got(held, id_of(id), timeout, "get_value")));
  return value_of(object);
}

py::list ObjectsClient::get_many(py::handle ids, py::handle timeout) {
  const SharedLink held = link();
  const std::vector<std::string> names = ids_of(ids);
  std::vector<Outcome<Object>> outcomes(names.size());
  std::vector<size_t> wanted = counted(names.size());
  wait_in_slices(ms_of(timeout, "timeout"), kSlice_ms, [&](uint64_t ms) {
    return without_gil([&] {
      auto results = held->objects.get(lent(names, wanted), ms);
      std::vector<size_t> missing;
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (results[i].code() == Code::kNotFound) missing.push_back(wanted[i]);
        outcomes[wanted[i]].result = std::move(results[i]);
      }
      wanted = std::move(missing);
      return wanted.empty();
    });
  });
  py::list list;
  for (size_t i = 0; i < names.size(); ++i) {
    auto& result = outcomes[i].result;
    if (result) {
      list.append(python_object(std::move(*result)));
    } else if (result.code() == Code::kNotFound) {
      list.append(py::none());
    } else {
      list.append(error_of(explain(result.code(), "get of " + shown(names[i]))));
    }
  }
  return list;
}

bool ObjectsClient::contains(py::handle id) {
  const SharedLink held = link();
  const std::string name = id_of(id);
  return value_or_raise(called<bool>(held, [&] { return held->objects.contains(name); }),
                        "contains of " + shown(name));
}

py::list ObjectsClient::list(bool all) {
  const SharedLink held = link();
  const py::dict seen;  // One that is there may come twice.
  for (uint64_t cursor = 0;;) {
    const ObjectPage page = value_or_raise(
        called<ObjectPage>(
            held, [&] { return held->objects.list(cursor, all ? Listing::kAll : Listing::kSealed); }),
        "list");
    for (const ListedObject& one : page.objects) {
      py::object holders = py::none();
      if (one.holders) holders = py::int_(*one.holders);
      seen[py::make_tuple(id_bytes(one.id), one.birth)] =
          record("Listed", id_bytes(one.id), one.birth, one.body_bytes, one.metadata_bytes, one.is_kept,
                 one.is_sealed, holders);
    }
    cursor = page.next;
    if (cursor == 0) break;
    check_signals();
  }
  return py::list(seen.attr("values")());
}

py::bytes ObjectsClient::digest(py::handle id) {
  return py::bytes(get(id, py::float_(0.0)).attr("digest")());
}

uint64_t ObjectsClient::remove(py::handle id, py::handle birth) {
  const SharedLink held = link();
  const std::string name = id_of(id);
  const uint64_t named = birth_of(birth);
  return value_or_raise(called<uint64_t>(held, [&] { return held->objects.remove(name, named); }),
                        "delete of " + shown(name));
}

uint64_t ObjectsClient::evict(py::handle size) {
  const SharedLink held = link();
  const uint64_t bytes = bytes_of(size, "size");
  return value_or_raise(called<uint64_t>(held, [&] { return held->objects.evict(bytes); }), "evict");
}

void ObjectsClient::keep(py::handle id, bool kept) {
  const SharedLink held = link();
  const std::string name = id_of(id);
  (void)value_or_raise(called<bool>(held,
                                    [&]() -> Result<bool> {
                                      const Code code = held->objects.keep(name, kept);
                                      if (code != Code::kOk) return fail(code);
                                      return true;
                                    }),
                       "keep of " + shown(name));
}

std::unique_ptr<Following> ObjectsClient::subscribe() {
  const SharedLink held = link();
  return std::make_unique<Following>(
      held,
      value_or_raise(called<Subscription>(held, [&] { return held->objects.subscribe(); }), "subscribe"));
}

py::object Following::next(py::handle timeout) {
  const SharedLink held = link_.lock();
  if (held == nullptr) raise_invalid("the client of this subscription was closed", "connect() again");
  Outcome<ObjectNotice> outcome{.result = fail(Code::kNotFound)};
  wait_in_slices(ms_of(timeout, "timeout"), kSlice_ms, [&](uint64_t ms) {
    outcome = called<ObjectNotice>(held, [&]() -> Result<ObjectNotice> {
      // Another thread may be waiting for the next one.
      std::unique_lock lock(mutex_, std::defer_lock);
      if (ms == kForever_ms) {
        lock.lock();
      } else if (!lock.try_lock_for(std::chrono::milliseconds(ms))) {
        return fail(Code::kNotFound);
      }
      return subscription_.next(ms);
    });
    return outcome.result.code() != Code::kNotFound;
  });
  if (outcome.result.code() == Code::kNotFound) return py::none();
  const ObjectNotice notice = value_or_raise(std::move(outcome), "next notice");
  return record("Notice", kind_text(notice.kind), id_bytes(notice.id), notice.birth, notice.body_bytes,
                notice.metadata_bytes);
}

py::object ObjectsClient::stat() {
  const SharedLink held = link();
  const ObjectStat is =
      value_or_raise(called<ObjectStat>(held, [&] { return held->objects.stat(); }), "stat");
  return record("Stat", is.limit, is.used, is.sealed_bytes, is.creation_bytes, is.removed_bytes,
                is.held_bytes, is.kept_bytes, is.objects, is.creations, is.removed, is.held, is.sealed_ever,
                is.removed_ever, is.evicted_ever, is.evicted_bytes_ever, is.aborted_ever);
}

void ObjectsClient::close() {
  SharedLink link = std::exchange(link_, nullptr);
  if (link == nullptr) return;
  end_creations(*link);
  (void)without_gil([&] {
    link.reset();
    return true;
  });
}

std::string ObjectsClient::text() const {
  return "<refract.objects.Client of " + (address_.empty() ? std::string("the default socket") : address_) +
         (is_closed() ? ", closed>" : ">");
}

std::unique_ptr<ObjectsClient> connect_objects(py::handle address, py::handle secret_file,
                                               py::handle timeout) {
  const std::string to = text_of(address, "address");
  ClientOptions options{.timeout_ns = client_timeout_ns(timeout)};
  options.secret_file = text_of(secret_file, "secret_file");
  Report why{Code::kOk, "", ""};
  SharedLink link = without_gil([&]() -> SharedLink {
    auto client = Client::connect(to, options);
    if (!client) {
      why = client.error();
      return nullptr;
    }
    auto objects = client->objects();
    if (!objects) {
      why = objects.error();
      return nullptr;
    }
    return std::make_shared<ObjectsLink>(
        ObjectsLink{.client = std::move(*client), .objects = *objects, .address = to});
  });
  if (link == nullptr) raise(why);
  return std::make_unique<ObjectsClient>(std::move(link));
}

}  // namespace refract::python
