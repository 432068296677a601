// SPDX-License-Identifier: Apache-2.0
#include "bench/report/fields.h"

namespace refract::bench {

using Json = documents::Value;

std::string text_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_text() ? found->as_text() : std::string();
}

double number_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_number() ? found->as_number() : 0;
}

bool flag_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_bool() && found->as_bool();
}

Json list_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_array() ? *found : Json::array();
}

Json object_in(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found != nullptr && found->is_object() ? *found : Json::object();
}

std::vector<Json> objects_in(const Json& object, const char* name) {
  std::vector<Json> objects;
  for (const Json& each : list_in(object, name)) {
    if (each.is_object()) objects.push_back(each);
  }
  return objects;
}

}  // namespace refract::bench
