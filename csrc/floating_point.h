/* Floating-point control. Part of internal.h. */
#ifndef SKEEP_FLOATING_POINT_H
#define SKEEP_FLOATING_POINT_H

/* The floating-point control of a thread: rounding, which exceptions trap, treatment of subnormal numbers. The core
 * always computes under SKEEP_FLOAT_DEFAULT (round to nearest, no traps, subnormals kept), whatever the threads of the
 * host use: operations from their begin to their end, workers always. */
#if defined(__x86_64__)
#define SKEEP_FLOAT_DEFAULT 0x1f80u
#define SKEEP_FLOAT_FLAGS 0x3fu /* flags of raised exceptions: in the same register, but not part of the control */
#else
#define SKEEP_FLOAT_DEFAULT 0u
#define SKEEP_FLOAT_FLAGS 0u
#endif
static inline uint64_t skeep_float_control(void) {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr();
#else
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  return fpcr;
#endif
}
static inline void skeep_float_restore(uint64_t control) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr((unsigned)control);
#else
  __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
#endif
}
/* Sets the default and returns the control of the host, which skeep_float_give restores. Both write the register only
 * when they must, since writing costs more than reading. */
static inline uint64_t skeep_float_take(void) {
  const uint64_t control = skeep_float_control();
  if ((control & ~(uint64_t)SKEEP_FLOAT_FLAGS) != SKEEP_FLOAT_DEFAULT) skeep_float_restore(SKEEP_FLOAT_DEFAULT);
  return control;
}
static inline void skeep_float_give(uint64_t control) {
  if ((control & ~(uint64_t)SKEEP_FLOAT_FLAGS) != SKEEP_FLOAT_DEFAULT) skeep_float_restore(control);
}
/* Subnormal operands and results count as zero from here on; returns what skeep_float_restore puts back. */
static inline uint64_t skeep_float_flush(void) {
  const uint64_t control = skeep_float_control();
#if defined(__x86_64__)
  skeep_float_restore(control | 0x8040u); /* FTZ, DAZ */
#else
  skeep_float_restore(control | 1u << 24); /* FZ */
#endif
  return control;
}

#endif
