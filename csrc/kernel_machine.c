/* What depends on the processor and nothing else: how the products of a few tokens read weights in feed order. It
 * changes neither orders nor bits. Measured with bench/bench_matmul; `skeep kernels` prints what is in force. */
#include "internal.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Processors by the display family and models of CPUID; models of one core design stand together. Unknown ones
 * prefetch nothing and read one panel at a time, which no processor was seen to lose much by. */
static const struct processor {
  struct skeep_machine machine;
  char vendor[13];
  uint32_t family, first, last;
} processors[] = {
    {{"sapphire-rapids", 4096, 2}, "GenuineIntel", 6, 143, 143},
    {{"sapphire-rapids", 4096, 2}, "GenuineIntel", 6, 207, 207}, /* Emerald Rapids: the same core */
    {{"zen3", 0, 1}, "AuthenticAMD", 25, 0x00, 0x0f},
    {{"zen3", 0, 1}, "AuthenticAMD", 25, 0x20, 0x5f},
    {{"zen4", 0, 1}, "AuthenticAMD", 25, 0x10, 0x1f}, /* any software prefetch loses a third */
    {{"zen4", 0, 1}, "AuthenticAMD", 25, 0x60, 0x7f},
    {{"zen4", 0, 1}, "AuthenticAMD", 25, 0xa0, 0xaf},
};

static struct skeep_machine machine = {"unknown", 0, 1};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void detect(void) {
#if defined(__x86_64__)
  uint32_t a, b, c, d;
  char vendor[13] = {0};
  if (!__get_cpuid(0, &a, &b, &c, &d)) return;
  memcpy(vendor, &b, 4), memcpy(vendor + 4, &d, 4), memcpy(vendor + 8, &c, 4);
  if (!__get_cpuid(1, &a, &b, &c, &d)) return;
  const uint32_t base = a >> 8 & 15, family = base == 15 ? base + (a >> 20 & 255) : base;
  const uint32_t model = (a >> 4 & 15) | (base == 6 || base == 15 ? a >> 12 & 0xf0 : 0);
  for (size_t i = 0; i < sizeof processors / sizeof processors[0]; i++) {
    const struct processor *p = &processors[i];
    if (!strcmp(p->vendor, vendor) && p->family == family && p->first <= model && model <= p->last) machine = p->machine;
  }
#endif
}

const struct skeep_machine *skeep_machine(void) {
  pthread_once(&once, detect);
  return &machine;
}
