/* The sentence of each status, and the version of the ABI. */
#include "memory_slot.h"

#include <inttypes.h>
#include <stdio.h>

uint32_t skeep_abi_version(void) { return SKEEP_ABI_VERSION; }

/* Conditions on a status. A sentence fits when all of its conditions hold. */
enum when {
  OPERAND = 1, /* the status names an operand */
  ZERO = 2,    /* the detail is 0 */
  MAX = 4,     /* the detail is UINT64_MAX */
  SAME = 8     /* the detail is the operand */
};

/* The sentences; the first one that fits a status is used. Placeholders:
 *   %C  the code                         %D, %X  the detail in decimal, in hexadecimal
 *   %E  the encoding that detail is      %H, %L  the encoding in its upper half, the operation in its lower half
 *   %F  the field of skeep_view at that byte offset
 *   %S  the storage with that id         %A      " of" and the open storage that contains that address, if any */
static const struct {
  int32_t code;
  uint32_t when;
  const char *text;
} sentences[] = {
    {SKEEP_OK, 0, "ok"},
    {SKEEP_ERR_CLOSED, ZERO, "the storage, or the mark the view was made in, is closed"},
    {SKEEP_ERR_CLOSED, 0, "%S, or the mark the view was made in, is closed"},
    {SKEEP_ERR_BUSY, 0, "storage is in use: %D pins are held by others"},
    {SKEEP_ERR_ARGUMENT, OPERAND | ZERO, "the view is absent"},
    {SKEEP_ERR_ARGUMENT, OPERAND, "invalid field of the view: %F"},
    {SKEEP_ERR_ARGUMENT, 0, "invalid argument: parameter %D, counted from 0 (rope, attend: byte %D of the struct of parameters)"},
    {SKEEP_ERR_BOUNDS, MAX, "layout or range reaches outside its bytes, beyond any address"},
    {SKEEP_ERR_BOUNDS, 0, "layout or range reaches outside its bytes: it needs %D"},
    {SKEEP_ERR_SHAPE, 0, "shape does not fit the operation (axis %D)"},
    {SKEEP_ERR_FORMAT, 0, "encoding %E is unknown or not accepted here"},
    {SKEEP_ERR_LAYOUT, MAX, "block axis or block order is not accepted here"},
    {SKEEP_ERR_LAYOUT, 0, "strides, block axis or block order are not accepted here (axis %D)"},
    {SKEEP_ERR_NO_KERNEL, ZERO, "this memory domain is not implemented"},
    {SKEEP_ERR_NO_KERNEL, 0, "no kernel for operation %L on encoding %H"},
    {SKEEP_ERR_MEMORY, OPERAND, "the step has no room for another pin: it was created for %D storages and marks"},
    {SKEEP_ERR_MEMORY, 0, "out of memory: %D bytes requested"},
    {SKEEP_ERR_IO, 0, "system call failed: errno %D"},
    {SKEEP_ERR_FAULT, 0, "a mapped page%A could not be read at address %X (file truncated, or an I/O error)"},
    {SKEEP_ERR_CHANGED, 0, "the file mapped as %S changed since it was mapped"},
    {SKEEP_ERR_OVERLAP, OPERAND | SAME, "output overlaps itself"},
    {SKEEP_ERR_OVERLAP, 0, "output overlaps operand %D"},
    {SKEEP_ERR_INDEX, 0, "index out of range: element %D of the index data"},
    {SKEEP_ERR_READONLY, 0, "output is in read-only %S"},
    {SKEEP_ERR_VALUE, 0, "element %D is not finite, or too large for the format"},
};

static const char *sentence_of(skeep_status s) {
  const uint32_t is = (s.operand >= 0 ? OPERAND : 0) | (s.detail == 0 ? ZERO : 0) | (s.detail == UINT64_MAX ? MAX : 0) |
                      ((uint64_t)s.operand == s.detail ? SAME : 0);
  for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++)
    if (sentences[i].code == s.code && !(sentences[i].when & ~is)) return sentences[i].text;
  return "unknown status %C (detail %D)";
}

/* The fields of skeep_view by byte offset. */
static const struct {
  size_t byte;
  const char *name;
} fields[] = {
#define FIELD(name) {offsetof(skeep_view, name), #name}
    FIELD(data),          FIELD(bytes),           FIELD(cell),           FIELD(generation),
    FIELD(storage),       FIELD(value),           FIELD(dtype),          FIELD(encoding),
    FIELD(layout.shape),  FIELD(layout.stride),   FIELD(layout.offset),  FIELD(layout.block),
    FIELD(layout.rank),   FIELD(layout.block_axis), FIELD(layout.row_axis), FIELD(layout.reserved),
    FIELD(layout.order.family), FIELD(layout.order.panel), FIELD(layout.order.interleave), FIELD(layout.order.version),
    FIELD(layout.reserved2), FIELD(reserved),
#undef FIELD
};

/* A sentence being written: length counts all of it, at keeps what fits. */
struct text {
  char *at;
  size_t size, length;
};

static void put(struct text *t, const char *s) {
  for (; *s; s++, t->length++)
    if (t->length + 1 < t->size) t->at[t->length] = *s;
}

static void put_number(struct text *t, const char *before, uint64_t n) {
  char number[24];
  put(t, before);
  snprintf(number, sizeof number, "%" PRIu64, n);
  put(t, number);
}

static void put_encoding(struct text *t, uint64_t id) {
  const skeep_encoding_info *e = id <= UINT32_MAX ? skeep_encoding_find((uint32_t)id) : NULL;
  if (e)
    put(t, e->name);
  else
    put_number(t, "", id);
}

static void put_field(struct text *t, uint64_t byte) {
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (fields[i].byte == byte) {
      put(t, fields[i].name);
      return;
    }
  put_number(t, "byte ", byte);
}

static void put_storage(struct text *t, uint64_t id) {
  char name[SKEEP_NAME_BYTES];
  put_number(t, "storage ", id);
  if (!skeep_storage_name(id, name, sizeof name)) return;
  put(t, " \"");
  put(t, name);
  put(t, "\"");
}

size_t skeep_status_text(skeep_status s, char *text, size_t size) {
  SKEEP_KEEP_ERRNO;
  struct text t = {text, text ? size : 0, 0};
  char number[32];
  if (s.operand >= 0) {
    put_number(&t, "operand ", (uint64_t)s.operand);
    put(&t, ": ");
  }
  for (const char *p = sentence_of(s); *p; p++) {
    if (*p != '%') {
      put(&t, (const char[]){*p, 0});
      continue;
    }
    switch (*++p) {
    case 'C': snprintf(number, sizeof number, "%" PRId32, s.code); put(&t, number); break;
    case 'D': put_number(&t, "", s.detail); break;
    case 'X': snprintf(number, sizeof number, "0x%" PRIx64, s.detail); put(&t, number); break;
    case 'E': put_encoding(&t, s.detail); break;
    case 'H': put_encoding(&t, s.detail >> 32); break;
    case 'L': put(&t, skeep_op_name((uint32_t)s.detail)); break;
    case 'F': put_field(&t, s.detail); break;
    case 'S': put_storage(&t, s.detail); break;
    case 'A': {
      const uint64_t id = skeep_storage_at(s.detail);
      if (!id) break;
      put(&t, " of ");
      put_storage(&t, id);
      break;
    }
    }
  }
  if (t.size) t.at[t.length < t.size ? t.length : t.size - 1] = 0;
  return t.length;
}
