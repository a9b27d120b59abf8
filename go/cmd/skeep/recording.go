package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"

	"github.com/google/pprof/profile"
	"github.com/skeep-project/skeep/go/internal/output"
	"github.com/skeep-project/skeep/go/trace"
	"github.com/spf13/cobra"
)

// recording is what a run writes besides its text, each when it is asked for: a trace, and a CPU profile. Both are
// of use when the run failed on its way, and then say so; a run that was refused leaves older ones as they are.
type recording struct {
	recorder   *trace.Recorder
	samples    bytes.Buffer
	trace, cpu *output.File
}

// begin begins the files, so that one which cannot be written is told before anything is computed.
func (r *recording) begin(c *cobra.Command, args []string, traceFile, cpuProfile string) error {
	targets, err := claim(c, modelFile(args), named{what: "--trace", path: traceFile}, named{what: "--cpuprofile", path: cpuProfile})
	if err != nil {
		return err
	}
	for i, to := range []**output.File{&r.trace, &r.cpu} {
		if targets[i] == nil {
			continue
		}
		if *to, err = await(c.Context(), targets[i].Create); err != nil {
			return err
		}
	}
	if r.trace != nil {
		r.recorder = trace.NewRecorder(1 << 18)
	}
	if r.cpu != nil {
		return pprof.StartCPUProfile(&r.samples)
	}
	return nil
}

// end writes what was recorded of a run, which failed if failed is not nil.
func (r *recording) end(failed error) error {
	var err error
	if r.trace != nil {
		if failed != nil {
			r.recorder.Fail(failed)
		}
		err = finish(r.trace, r.recorder.WritePerfetto)
	}
	if r.cpu != nil {
		pprof.StopCPUProfile()
		err = errors.Join(err, finish(r.cpu, func(w io.Writer) error { return writeSamples(w, &r.samples, failed) }))
	}
	return err
}

// discard ends a recording of nothing.
func (r *recording) discard() {
	for _, f := range []*output.File{r.trace, r.cpu} {
		if f != nil {
			f.Discard()
		}
	}
	pprof.StopCPUProfile() // no harm when there is none
}

// finish writes a file as a whole or not at all.
func finish(f *output.File, content func(io.Writer) error) error {
	defer f.Discard()
	if err := content(f); err != nil {
		return err
	}
	return f.Commit()
}

// writeSamples writes a CPU profile; one of a run that failed has a comment that says so.
func writeSamples(w io.Writer, samples *bytes.Buffer, failed error) error {
	if failed == nil {
		_, err := w.Write(samples.Bytes())
		return err
	}
	p, err := profile.Parse(samples)
	if err != nil {
		return fmt.Errorf("CPU profile: %w", err)
	}
	p.Comments = append(p.Comments, "failed: "+failed.Error())
	return p.Write(w)
}
