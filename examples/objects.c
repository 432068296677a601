// SPDX-License-Identifier: Apache-2.0
// Objects from C: makes one, reads it back in place, and removes it.
//   cc objects.c $(pkg-config --cflags --libs refract)
#include <stdio.h>
#include <string.h>

#include "refract/client/objects_c.h"

static int complain(refract_objects* objects, const char* what, int code) {
  char why[REFRACT_WHY_BYTES];
  refract_objects_trouble(objects, why, sizeof why);
  fprintf(stderr, "%s: %s\n%s\n", what, refract_code_text(code), why);
  refract_objects_close(objects);
  return 1;
}

int main(int argc, char** argv) {
  static const char id[] = "from C";
  static const char text[] = "hello, object";
  char why[REFRACT_WHY_BYTES];
  refract_objects* objects = NULL;
  refract_new_object* made = NULL;
  refract_object* object = NULL;
  uint64_t holders = 0;
  int code = refract_objects_open(argc > 1 ? argv[1] : NULL, NULL, &objects, why, sizeof why);
  if (code != REFRACT_OK) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  code = refract_object_create(objects, id, sizeof id - 1, sizeof text - 1, 0, 0, &made);
  if (code != REFRACT_OK) return complain(objects, "create", code);
  memcpy(refract_new_object_body(made), text, sizeof text - 1);
  code = refract_new_object_seal(made, NULL);
  if (code != REFRACT_OK) {
    refract_new_object_abort(made);
    return complain(objects, "seal", code);
  }
  code = refract_object_get(objects, id, sizeof id - 1, 0, &object);
  if (code != REFRACT_OK) return complain(objects, "get", code);
  code = refract_object_remove(objects, id, sizeof id - 1, 0, &holders);
  if (code != REFRACT_OK) return complain(objects, "remove", code);
  // Removed, and held: the bytes stay as long as the handle.
  printf("%.*s, %llu held it\n", (int)refract_object_body_bytes(object),
         (const char*)refract_object_body(object), (unsigned long long)holders);
  refract_object_release(object);
  refract_objects_close(objects);
  return 0;
}
