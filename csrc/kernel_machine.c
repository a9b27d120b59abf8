/* The table of processors: see machine.h. `skeep kernels` prints what is in force; `skeep kernels --calibrate` measures
 * what a row should say. */
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define IN_USE SKEEP_ISA_PORTABLE /* in the table: the set that is in use */

/* The families. Unknown processors prefetch nothing and read one panel at a time, which no processor was seen to lose
 * much by. The resolver's table of gains (go/resolver/gain.go) has a column for each name. */
enum { UNKNOWN, SAPPHIRE_RAPIDS, ZEN3, ZEN4 };
static const struct skeep_machine families[] = {
    [UNKNOWN] = {"unknown", 0, 1, IN_USE, IN_USE},
    [SAPPHIRE_RAPIDS] = {"sapphire-rapids", 4096, 2, IN_USE, IN_USE},
    [ZEN3] = {"zen3", 0, 1, IN_USE, IN_USE},
    /* Any software prefetch loses a third. As stored, AVX2 is 1.3 to 1.6 times as fast; AVX-512 in feed order reads at the
     * bandwidth. */
    [ZEN4] = {"zen4", 0, 1, IN_USE, SKEEP_ISA_AVX2},
};
#define FAMILIES (sizeof families / sizeof families[0])

/* Whose models, from first to last, are of which of them. */
static const struct {
  const char *vendor;
  uint32_t family, first, last, is;
} processors[] = {
    {"GenuineIntel", 6, 143, 143, SAPPHIRE_RAPIDS},
    {"GenuineIntel", 6, 207, 207, SAPPHIRE_RAPIDS}, /* Emerald Rapids: the same core */
    {"AuthenticAMD", 25, 0x00, 0x0f, ZEN3},
    {"AuthenticAMD", 25, 0x20, 0x5f, ZEN3},
    {"AuthenticAMD", 25, 0x10, 0x1f, ZEN4},
    {"AuthenticAMD", 25, 0x60, 0x7f, ZEN4},
    {"AuthenticAMD", 25, 0xa0, 0xaf, ZEN4},
};

const char *skeep_machine_family(size_t index) { return index < FAMILIES ? families[index].name : NULL; }

struct skeep_machine skeep_machine_of(const char *vendor, uint32_t family, uint32_t model) {
  for (size_t i = 0; i < sizeof processors / sizeof processors[0]; i++)
    if (!strcmp(processors[i].vendor, vendor) && processors[i].family == family && processors[i].first <= model &&
        model <= processors[i].last)
      return families[processors[i].is];
  return families[UNKNOWN];
}

static struct skeep_machine here(void) {
#if defined(__x86_64__)
  uint32_t a, b, c, d;
  char vendor[13] = {0};
  if (!__get_cpuid(0, &a, &b, &c, &d)) return families[UNKNOWN];
  memcpy(vendor, &b, 4), memcpy(vendor + 4, &d, 4), memcpy(vendor + 8, &c, 4);
  if (!__get_cpuid(1, &a, &b, &c, &d)) return families[UNKNOWN];
  const uint32_t base = a >> 8 & 15, family = base == 15 ? base + (a >> 20 & 255) : base;
  return skeep_machine_of(vendor, family, (a >> 4 & 15) | (base == 6 || base == 15 ? a >> 12 & 0xf0 : 0));
#else
  return families[UNKNOWN];
#endif
}

/* ---- words ---- */

/* What stands between p and end; UINT32_MAX when it is no such thing. */
static uint32_t isa_of(const char *p, const char *end) {
  for (uint32_t isa = SKEEP_ISA_AVX2; isa <= SKEEP_ISA_AVX512; isa++)
    if ((size_t)(end - p) == strlen(skeep_isa_name(isa)) && !strncmp(p, skeep_isa_name(isa), (size_t)(end - p))) return isa;
  return UINT32_MAX;
}
static uint32_t number_of(const char *p, const char *end) {
  uint32_t v = 0;
  if (p == end || end - p > 7) return UINT32_MAX;
  for (; p < end; p++) {
    if (*p < '0' || *p > '9') return UINT32_MAX;
    v = 10 * v + (uint32_t)(*p - '0');
  }
  return v;
}

int skeep_machine_parse(const char *words, struct skeep_machine *machine) {
  struct skeep_machine m = *machine;
  const struct {
    const char *name;
    uint32_t *field, least, most;
    int set;
  } known[] = {
      {"ahead=", &m.ahead, 0, SKEEP_MACHINE_MAX_AHEAD, 0},
      {"panels=", &m.panels, 1, 2, 0},
      {"feed=", &m.feed, SKEEP_ISA_AVX2, SKEEP_ISA_AVX512, 1},
      {"stored=", &m.stored, SKEEP_ISA_AVX2, SKEEP_ISA_AVX512, 1},
  };
#define KNOWN (sizeof known / sizeof known[0])
  for (const char *p = words; *p;) {
    const char *end = p + strcspn(p, ",");
    size_t i = 0;
    while (i < KNOWN && strncmp(p, known[i].name, strlen(known[i].name))) i++;
    if (i == KNOWN) return 0;
    p += strlen(known[i].name);
    const uint32_t value = known[i].set ? isa_of(p, end) : number_of(p, end);
    if (value < known[i].least || value > known[i].most || (*end && !end[1])) return 0;
    *known[i].field = value;
    p = *end ? end + 1 : end;
  }
#undef KNOWN
  *machine = m;
  return 1;
}

/* ---- in force ---- */

static struct skeep_machine machine;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t usable(uint32_t isa) {
  return isa == SKEEP_ISA_AVX2 && skeep_isa() == SKEEP_ISA_AVX512 ? isa : skeep_isa();
}

static void put(struct skeep_machine m) {
  m.feed = usable(m.feed);
  m.stored = usable(m.stored);
  machine = m;
}

static void detect(void) {
  struct skeep_machine m = here();
  const char *words = getenv("SKEEP_MACHINE");
  if (words) (void)skeep_machine_parse(words, &m);
  put(m);
}

const struct skeep_machine *skeep_machine(void) {
  pthread_once(&once, detect);
  return &machine;
}

void skeep_machine_set(const struct skeep_machine *m) {
  (void)skeep_machine();
  put(*m);
}
