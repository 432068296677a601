// SPDX-License-Identifier: Apache-2.0
#include "refract/object/owner/object_index.h"

namespace refract::object {

ObjectIndex::Number ObjectIndex::add(Offset object, Standing standing) {
  Number number = free_;
  if (number != kNone) {
    free_ = node(number).newer;
  } else {
    number = used_++;
    if (number / kPerBlock == blocks_.size()) blocks_.push_back(std::make_unique<Block>());
  }
  node(number) = {};
  node(number).object_at = object.value;
  places_.add(hash_(object.value), number);
  link(number, standing);
  return number;
}

void ObjectIndex::remove(Number number) {
  unlink(number);
  places_.remove(hash_(node(number).object_at), number);
  node(number).newer = free_;
  free_ = number;
}

void ObjectIndex::move(Number number, Standing standing) {
  unlink(number);
  link(number, standing);
}

ObjectIndex::Number ObjectIndex::find(Offset object) const {
  const auto is_it = [&](uint64_t place) {
    return node(static_cast<Number>(place)).object_at == object.value;
  };
  const auto place = places_.find(hash_(object.value), is_it);
  return place ? static_cast<Number>(*place) : kNone;
}

void ObjectIndex::link(Number number, Standing standing) noexcept {
  List& of = list(standing);
  Node& it = node(number);
  it.standing = standing;
  it.older = of.newest;
  it.newer = kNone;
  (of.newest == kNone ? of.oldest : node(of.newest).newer) = number;
  of.newest = number;
  ++of.count;
}

void ObjectIndex::unlink(Number number) noexcept {
  const Node& it = node(number);
  List& of = list(it.standing);
  (it.older == kNone ? of.oldest : node(it.older).newer) = it.newer;
  (it.newer == kNone ? of.newest : node(it.newer).older) = it.older;
  --of.count;
}

}  // namespace refract::object
