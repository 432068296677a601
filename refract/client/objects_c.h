// SPDX-License-Identifier: Apache-2.0
// Objects for programs in C, and in whatever calls C: refract/client/objects.h says what everything means.
//
//   refract_objects* objects;
//   char why[REFRACT_WHY_BYTES];
//   if (refract_objects_open(NULL, NULL, &objects, why, sizeof why) != REFRACT_OK) return complain(why);
//   refract_object* object;
//   if (refract_object_get(objects, "weights", 7, REFRACT_FOREVER, &object) == REFRACT_OK) {
//     use(refract_object_body(object), refract_object_body_bytes(object));
//     refract_object_release(object);
//   }
//   refract_objects_close(objects);
//
// Every function that can fail returns a code, and changes nothing that it was to fill in unless it is
// REFRACT_OK. Codes keep their numbers; a program meets numbers that it does not know as failures.
//
// Threads: as in objects.h. A refract_objects is used by any number of threads at once; it is opened and
// closed while no other is in a call. A refract_object may be released after that, by any thread. What is
// being made, and a subscription, are used by one thread at a time, and ended before it is closed.
//
// Names that end in _bytes are lengths. Ids, bodies and metadata are any bytes, and end with no zero.
#pragma once

#include <stddef.h>  // NOLINT(modernize-deprecated-headers): for C.
#include <stdint.h>  // NOLINT(modernize-deprecated-headers)

#define REFRACT_C_API __attribute__((visibility("default")))

// NOLINTBEGIN(readability-identifier-naming, modernize-use-using)
#ifdef __cplusplus
extern "C" {
#endif

enum {
  REFRACT_OK = 0,
  REFRACT_NOT_FOUND = 1,
  REFRACT_EXISTS = 2,
  REFRACT_VERSION_MISMATCH = 3,
  REFRACT_INVALID_ARGUMENT = 4,
  REFRACT_TOO_LARGE = 5,
  REFRACT_NO_SPACE = 6,
  REFRACT_DEADLINE_EXCEEDED = 7,
  REFRACT_INDETERMINATE = 8,
  REFRACT_UNAVAILABLE = 9,
  REFRACT_OVERLOADED = 10,
  REFRACT_ACCESS_DENIED = 12,
  REFRACT_UNSUPPORTED = 13,
  REFRACT_FORKED = 16,
  REFRACT_SYSTEM = 18,
  REFRACT_CANCELLED = 21,
  REFRACT_AWAY = 23
};
// A sentence for a person. Never NULL.
REFRACT_C_API const char* refract_code_text(int code);

#define REFRACT_FOREVER UINT64_MAX
// Of the longest text that says why something failed, its final zero among them.
#define REFRACT_WHY_BYTES 1024
#define REFRACT_NEW_ID_BYTES 20

typedef struct refract_objects refract_objects;
typedef struct refract_object refract_object;
typedef struct refract_new_object refract_new_object;
typedef struct refract_subscription refract_subscription;

// Connects. `address`, `secret_file`: NULL for the defaults. `why`: gets a text where it fails, cut to
// `why_bytes`; may be NULL.
REFRACT_C_API int refract_objects_open(const char* address, const char* secret_file,
                                       refract_objects** objects, char* why, size_t why_bytes);
// Also of NULL; so are all that end something.
REFRACT_C_API void refract_objects_close(refract_objects* objects);
// Why the calling thread's last failed call failed.
REFRACT_C_API void refract_objects_trouble(refract_objects* objects, char* why, size_t why_bytes);

// --- Making ---

REFRACT_C_API int refract_object_create(refract_objects* objects, const void* id, size_t id_bytes,
                                        uint64_t body_bytes, uint32_t metadata_bytes,
                                        uint64_t room_timeout_ms, refract_new_object** made);
REFRACT_C_API void* refract_new_object_body(refract_new_object* made);
REFRACT_C_API void* refract_new_object_metadata(refract_new_object* made);
REFRACT_C_API uint64_t refract_new_object_birth(const refract_new_object* made);
REFRACT_C_API int refract_new_object_filled(refract_new_object* made, uint64_t bytes);
// With REFRACT_OK it has ended, and `object`, unless it is NULL, gets a handle. Else it is the program's
// still: to be sealed again, where that may help, or aborted.
REFRACT_C_API int refract_new_object_seal(refract_new_object* made, refract_object** object);
REFRACT_C_API void refract_new_object_abort(refract_new_object* made);

// `birth`: may be NULL.
REFRACT_C_API int refract_object_put(refract_objects* objects, const void* id, size_t id_bytes,
                                     const void* body, uint64_t body_bytes, const void* metadata,
                                     uint32_t metadata_bytes, uint64_t room_timeout_ms, uint64_t* birth);
typedef struct refract_put {
  const void* id;
  size_t id_bytes;
  const void* body;
  uint64_t body_bytes;
  const void* metadata;
  uint32_t metadata_bytes;
  int code;        // Filled in, and so is the next.
  uint64_t birth;  // With REFRACT_OK.
} refract_put;
// Each gets its own code.
REFRACT_C_API void refract_object_put_many(refract_objects* objects, refract_put* puts, size_t count);
REFRACT_C_API int refract_object_new_id(refract_objects* objects, unsigned char id[REFRACT_NEW_ID_BYTES]);

// --- Reading ---

REFRACT_C_API int refract_object_get(refract_objects* objects, const void* id, size_t id_bytes,
                                     uint64_t timeout_ms, refract_object** object);
typedef struct refract_get {
  const void* id;
  size_t id_bytes;
  int code;                // Filled in, and so is the next.
  refract_object* object;  // With REFRACT_OK, else NULL.
} refract_get;
// All waited for together.
REFRACT_C_API void refract_object_get_many(refract_objects* objects, refract_get* gets, size_t count,
                                           uint64_t timeout_ms);
REFRACT_C_API const void* refract_object_body(const refract_object* object);
REFRACT_C_API uint64_t refract_object_body_bytes(const refract_object* object);
REFRACT_C_API const void* refract_object_metadata(const refract_object* object);
REFRACT_C_API uint32_t refract_object_metadata_bytes(const refract_object* object);
REFRACT_C_API uint64_t refract_object_birth(const refract_object* object);
// The high word first.
REFRACT_C_API void refract_object_digest(const refract_object* object, uint64_t digest[2]);
REFRACT_C_API void refract_object_release(refract_object* object);

// REFRACT_OK: it is there; REFRACT_NOT_FOUND: it is not.
REFRACT_C_API int refract_object_contains(refract_objects* objects, const void* id, size_t id_bytes);

// --- On several nodes; REFRACT_UNSUPPORTED: the node shares its objects with no other. ---

typedef struct refract_places {
  uint64_t birth;
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  uint32_t copies_wanted;  // On different nodes, and never evicted. 0: none.
  uint32_t copies;         // So many of these there are.
} refract_places;
// Which nodes have it: calls `visit` with the name of each. The first `places_bytes` of `places`, as of
// refract_objects_stat(); may be NULL.
REFRACT_C_API int refract_object_where(refract_objects* objects, const void* id, size_t id_bytes,
                                       refract_places* places, size_t places_bytes,
                                       void (*visit)(void* context, const char* node), void* context);
// Brings a copy to this node; waits as refract_object_get() does, and holds nothing.
REFRACT_C_API int refract_object_prefetch(refract_objects* objects, const void* id, size_t id_bytes,
                                          uint64_t timeout_ms);
// So many copies (0 to 16) are kept on different nodes. `made`: how many there are; may be NULL.
REFRACT_C_API int refract_object_set_copies(refract_objects* objects, const void* id, size_t id_bytes,
                                            uint32_t copies, uint64_t timeout_ms, uint32_t* made);

typedef struct refract_brought {
  const char* node;  // Its name. Valid during the call that shows it.
  int code;          // REFRACT_OK: it has a copy. Else why it has none.
} refract_brought;
// Brings copies to these nodes, all at once, or to all nodes of the list with a `count` of 0: each passes on
// what has come to it. Calls `visit` for each. REFRACT_INVALID_ARGUMENT: more than 255, or a name that no
// node has. `missed`: how many nodes did not get it; may be NULL.
REFRACT_C_API int refract_object_broadcast(refract_objects* objects, const void* id, size_t id_bytes,
                                           const char* const* nodes, size_t count, uint64_t timeout_ms,
                                           uint64_t* missed,
                                           void (*visit)(void* context, const refract_brought* node),
                                           void* context);

typedef struct refract_ranked {
  const char* node;  // Its name. Valid during the call that shows it.
  int code;          // REFRACT_OK, REFRACT_NO_SPACE; else nothing is known of it, and the numbers are 0.
  int is_guessed;    // Not all of its paths were measured.
  uint64_t time_ns;
  uint64_t missing_bytes;
  uint64_t missing_objects;
  uint64_t unreachable_objects;  // Of the missing ones: it reaches no node that has them.
} refract_ranked;
typedef struct refract_rank_id {
  const void* id;
  size_t id_bytes;
  int code;  // Filled in. Only objects with REFRACT_OK count.
} refract_rank_id;
// In how much time each node could have these objects: calls `visit` for each, the quickest first. At most
// 256.
REFRACT_C_API int refract_objects_rank(refract_objects* objects, refract_rank_id* ids, size_t count,
                                       uint64_t timeout_ms,
                                       void (*visit)(void* context, const refract_ranked* node),
                                       void* context);

typedef struct refract_listed {
  const void* id;  // Valid during the call that shows it.
  size_t id_bytes;
  uint64_t birth;
  uint64_t body_bytes;
  uint32_t metadata_bytes;
  int is_kept;
} refract_listed;
// Calls `visit` for the sealed objects of a page, and moves the cursor behind it: begin with 0; 0 again says
// that this was the last page.
REFRACT_C_API int refract_object_list(refract_objects* objects, uint64_t* cursor,
                                      void (*visit)(void* context, const refract_listed* object),
                                      void* context);

// --- Ending ---

// `birth` 0: any. `holders`: may be NULL.
REFRACT_C_API int refract_object_remove(refract_objects* objects, const void* id, size_t id_bytes,
                                        uint64_t birth, uint64_t* holders);
// `given_back`: may be NULL.
REFRACT_C_API int refract_object_evict(refract_objects* objects, uint64_t bytes, uint64_t* given_back);
REFRACT_C_API int refract_object_keep(refract_objects* objects, const void* id, size_t id_bytes, int is_kept);

// --- Knowing ---

typedef struct refract_object_stat {
  uint64_t limit;
  uint64_t used;
  uint64_t sealed_bytes;
  uint64_t creation_bytes;
  uint64_t removed_bytes;
  uint64_t held_bytes;
  uint64_t kept_bytes;
  uint64_t objects;
  uint64_t creations;
  uint64_t removed;
  uint64_t held;
} refract_object_stat;
// The first `stat_bytes` of it, so that later versions may append to it: pass sizeof(refract_object_stat).
REFRACT_C_API int refract_objects_stat(refract_objects* objects, refract_object_stat* stat,
                                       size_t stat_bytes);

enum { REFRACT_THERE = 0, REFRACT_SEALED = 1, REFRACT_REMOVED = 2, REFRACT_MISSED = 3 };
typedef struct refract_notice {
  int kind;
  uint32_t metadata_bytes;
  uint64_t birth;
  uint64_t body_bytes;
  const void* id;  // Until the subscription's next call.
  size_t id_bytes;
} refract_notice;
REFRACT_C_API int refract_objects_subscribe(refract_objects* objects, refract_subscription** subscription);
REFRACT_C_API int refract_subscription_next(refract_subscription* subscription, uint64_t timeout_ms,
                                            refract_notice* notice);
REFRACT_C_API void refract_subscription_end(refract_subscription* subscription);

#ifdef __cplusplus
}
#endif
// NOLINTEND(readability-identifier-naming, modernize-use-using)
