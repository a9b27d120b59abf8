package core

/*
#include "machine.h"
#include <stdlib.h>

static void machine_set(uint32_t ahead, uint32_t panels, uint32_t feed, uint32_t stored) {
  struct skeep_machine m = *skeep_machine();
  m.ahead = ahead, m.panels = panels, m.feed = feed, m.stored = stored;
  skeep_machine_set(&m);
}
static int machine_words(const char *words) {
  struct skeep_machine m = *skeep_machine();
  return skeep_machine_parse(words, &m);
}
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// Machine is what depends on the processor and nothing else: how products of few tokens read weights. No bit of a result
// depends on it.
type Machine struct {
	Processor string `json:"processor"` // the family, "unknown" for those that the C core does not list
	Ahead     int    `json:"ahead"`     // bytes by which weights in feed order are prefetched
	Panels    int    `json:"panels"`    // of feed order that are read side by side for one token
	Feed      string `json:"feed"`      // the instruction set for one token with 8-bit activations and feed order,
	Stored    string `json:"stored"`    // and with weights as stored
}

// MachineInForce is the row of this processor in the C core's table, as SKEEP_MACHINE and SetMachine changed it.
func MachineInForce() Machine {
	m := C.skeep_machine()
	return Machine{C.GoString(m.name), int(m.ahead), int(m.panels), C.GoString(C.skeep_isa_name(m.feed)), C.GoString(C.skeep_isa_name(m.stored))}
}

// String is the machine as SKEEP_MACHINE takes it, which knows no sets but those among which there is a choice.
func (m Machine) String() string {
	s := fmt.Sprintf("ahead=%d,panels=%d", m.Ahead, m.Panels)
	for _, set := range []struct{ word, isa string }{{"feed", m.Feed}, {"stored", m.Stored}} {
		if strings.HasPrefix(set.isa, "avx") {
			s += "," + set.word + "=" + set.isa
		}
	}
	return s
}

// SetMachine puts everything of m but its processor in force, for measuring. Sets that are not in use become the one that
// is. Not while an operation runs.
func SetMachine(m Machine) {
	C.machine_set(C.uint32_t(m.Ahead), C.uint32_t(m.Panels), isaNamed(m.Feed), isaNamed(m.Stored))
}

func isaNamed(name string) C.uint32_t {
	for isa := range C.uint32_t(C.SKEEP_ISA_NEON) {
		if C.GoString(C.skeep_isa_name(isa)) == name {
			return isa
		}
	}
	return C.SKEEP_ISA_NEON
}

// MachineWords says whether SKEEP_MACHINE may have this value.
func MachineWords(words string) bool {
	c := C.CString(words)
	defer C.free(unsafe.Pointer(c))
	return C.machine_words(c) != 0
}

// MachineFamilies are the names that Machine.Processor may have.
func MachineFamilies() (names []string) {
	for {
		name := C.skeep_machine_family(C.size_t(len(names)))
		if name == nil {
			return names
		}
		names = append(names, C.GoString(name))
	}
}

// RowOfOneToken is the row of the kernel table that a product of one token runs where one of several tokens runs `row`.
func RowOfOneToken(row int) int { return int(C.skeep_machine_row(C.size_t(row))) }
