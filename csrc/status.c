/* The sentence of each status, and the version of the ABI. */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>

uint32_t skeep_abi_version(void) { return SKEEP_ABI_VERSION; }

/* %D stands for the detail in decimal, %X in hexadecimal, %A for it as a signed number, %E for the name of the
 * encoding that it is, %H and %L for the encoding in its upper half and the operation in its lower. */
static const char *const sentences[] = {
    [SKEEP_OK] = "ok",
    [SKEEP_ERR_CLOSED] = "storage %D (or the mark of it that the view was made in) is closed",
    [SKEEP_ERR_BUSY] = "storage is in use: %D pins are held by others",
    [SKEEP_ERR_ARGUMENT] = "invalid argument (field %D)",
    [SKEEP_ERR_BOUNDS] = "layout reaches outside of the bytes: it needs %D",
    [SKEEP_ERR_SHAPE] = "shape does not fit the operation (axis %A)",
    [SKEEP_ERR_FORMAT] = "format %E is unknown or not accepted here",
    [SKEEP_ERR_LAYOUT] = "strides, block axis or order are not accepted here (axis %A)",
    [SKEEP_ERR_NO_KERNEL] = "no kernel for operation %L on encoding %H",
    [SKEEP_ERR_MEMORY] = "out of memory: %D bytes asked for",
    [SKEEP_ERR_IO] = "system call failed: errno %D",
    [SKEEP_ERR_FAULT] = "a mapped page could not be read at address %X (file truncated, or an I/O error)",
    [SKEEP_ERR_CHANGED] = "the file mapped as storage %D changed since it was mapped",
    [SKEEP_ERR_OVERLAP] = "output overlaps input %A",
    [SKEEP_ERR_INDEX] = "index data out of range at position %D",
    [SKEEP_ERR_READONLY] = "output lies in read-only storage %D",
    [SKEEP_ERR_VALUE] = "element %D is not finite, or too large for the format",
};
#define SENTENCES (int32_t)(sizeof sentences / sizeof sentences[0])

/* A sentence under construction: counts everything, keeps what fits. */
struct text {
  char *at;
  size_t size, length;
};

static void put(struct text *t, const char *s) {
  for (; *s; s++, t->length++)
    if (t->length + 1 < t->size) t->at[t->length] = *s;
}

static void put_encoding(struct text *t, uint64_t id) {
  char number[24];
  const skeep_encoding_info *e = id <= UINT32_MAX ? skeep_encoding_find((uint32_t)id) : NULL;
  snprintf(number, sizeof number, "%" PRIu64, id);
  put(t, e ? e->name : number);
}

size_t skeep_status_text(skeep_status s, char *text, size_t size) {
  struct text t = {text, text ? size : 0, 0};
  char number[32];
  const char *p = "unknown status %D";
  if (s.code >= 0 && s.code < SENTENCES) p = sentences[s.code];
  if (s.operand >= 0) {
    snprintf(number, sizeof number, "operand %" PRId32 ": ", s.operand);
    put(&t, number);
  }
  for (; *p; p++) {
    if (*p != '%') {
      put(&t, (const char[]){*p, 0});
      continue;
    }
    switch (*++p) {
    case 'D': snprintf(number, sizeof number, "%" PRIu64, s.detail); put(&t, number); break;
    case 'A': snprintf(number, sizeof number, "%" PRId64, (int64_t)s.detail); put(&t, number); break;
    case 'X': snprintf(number, sizeof number, "0x%" PRIx64, s.detail); put(&t, number); break;
    case 'E': put_encoding(&t, s.detail); break;
    case 'H': put_encoding(&t, s.detail >> 32); break;
    case 'L': put(&t, skeep_op_name((uint32_t)s.detail)); break;
    }
  }
  if (t.size) t.at[t.length < t.size ? t.length : t.size - 1] = 0;
  return t.length;
}
