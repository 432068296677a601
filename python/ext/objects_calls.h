// SPDX-License-Identifier: Apache-2.0
// What is behind refract.objects: arguments as Python gives them, results and errors as it takes them.
//
// Threads: any; the GIL is held at the beginning and the end of each call.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>
#include <string>

#include "python/ext/creation.h"
#include "python/ext/objects_link.h"

namespace refract::python {

class Following {
 public:
  Following(const SharedLink& link, Subscription subscription)
      : link_(link), subscription_(std::move(subscription)) {}
  [[nodiscard]] pybind11::object next(pybind11::handle timeout);

 private:
  std::weak_ptr<ObjectsLink> link_;
  std::timed_mutex mutex_;  // Of the next; taken without the GIL.
  Subscription subscription_;
};

class ObjectsClient {
 public:
  explicit ObjectsClient(SharedLink link) : link_(std::move(link)), address_(link_->address) {}
  ObjectsClient(const ObjectsClient&) = delete;
  ObjectsClient& operator=(const ObjectsClient&) = delete;
  ~ObjectsClient() { close(); }

  [[nodiscard]] std::unique_ptr<Creation> create(pybind11::handle id, pybind11::handle size,
                                                 pybind11::handle metadata, pybind11::handle room_timeout);
  [[nodiscard]] uint64_t put(pybind11::handle id, pybind11::handle data, pybind11::handle metadata,
                             pybind11::handle room_timeout, pybind11::handle copies,
                             pybind11::handle copies_timeout);
  [[nodiscard]] uint64_t put_value(pybind11::handle id, pybind11::handle value, pybind11::handle metadata,
                                   pybind11::handle room_timeout);
  [[nodiscard]] pybind11::list put_many(pybind11::handle items);
  [[nodiscard]] pybind11::bytes new_id();
  [[nodiscard]] pybind11::object get(pybind11::handle id, pybind11::handle timeout);
  [[nodiscard]] pybind11::list get_many(pybind11::handle ids, pybind11::handle timeout);
  [[nodiscard]] pybind11::object get_value(pybind11::handle id, pybind11::handle timeout);
  [[nodiscard]] bool contains(pybind11::handle id);
  [[nodiscard]] pybind11::object where(pybind11::handle id);
  [[nodiscard]] pybind11::object set_copies(pybind11::handle id, pybind11::handle copies,
                                            pybind11::handle timeout);
  [[nodiscard]] pybind11::list prefetch(pybind11::handle ids, pybind11::handle timeout);
  [[nodiscard]] pybind11::object rank(pybind11::handle ids, pybind11::handle timeout);
  [[nodiscard]] pybind11::object broadcast(pybind11::handle id, pybind11::handle nodes,
                                           pybind11::handle timeout);
  [[nodiscard]] pybind11::list list(bool all);
  [[nodiscard]] pybind11::bytes digest(pybind11::handle id);
  [[nodiscard]] uint64_t remove(pybind11::handle id, pybind11::handle birth);
  [[nodiscard]] pybind11::list missed();
  [[nodiscard]] uint32_t copies_made();
  [[nodiscard]] uint64_t evict(pybind11::handle size);
  void keep(pybind11::handle id, bool kept);
  [[nodiscard]] std::unique_ptr<Following> subscribe();
  [[nodiscard]] pybind11::object stat();
  void close();
  [[nodiscard]] bool is_closed() const noexcept { return link_ == nullptr; }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] std::string text() const;

 private:
  // Held for the time of a call. Raises behind close().
  [[nodiscard]] SharedLink link() const;
  [[nodiscard]] Object got(const SharedLink& link, const std::string& id, pybind11::handle timeout,
                           const char* call);
  [[nodiscard]] NewObject created(const SharedLink& link, const std::string& id, uint64_t body_bytes,
                                  size_t metadata_bytes, pybind11::handle room_timeout, const char* call);

  SharedLink link_;  // Null: closed.
  std::string address_;
};

[[nodiscard]] std::unique_ptr<ObjectsClient> connect_objects(pybind11::handle address,
                                                             pybind11::handle secret_file,
                                                             pybind11::handle timeout);

}  // namespace refract::python
