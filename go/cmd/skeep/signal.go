package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/skeep-project/skeep/go/internal/output"
)

// endings are the signals that end a command in order: what it was writing is removed, or kept and marked.
var endings = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE}

// interruption is the cause of a context that a signal ended.
type interruption struct{ signal os.Signal }

func (i interruption) Error() string { return "interrupted" }

// Unwrap makes it a cancellation like any other.
func (i interruption) Unwrap() error { return context.Canceled }

// interruptible is a context that the first signal ends, for the command to unwind. A second one ends the process at
// once; only what is half written is removed first.
func interruptible() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	arrived := make(chan os.Signal, 2)
	for _, s := range endings {
		if !signal.Ignored(s) { // as nohup and shells do for jobs in the background: it stays so
			signal.Notify(arrived, s)
		}
	}
	go func() {
		cancel(interruption{<-arrived})
		for s := range arrived {
			if number, ok := s.(syscall.Signal); ok && s != syscall.SIGPIPE { // which each further write brings
				output.RemoveAll()
				signal.Reset(s)
				_ = syscall.Kill(os.Getpid(), number)
			}
		}
	}()
	return ctx, func() { signal.Stop(arrived) }
}

// told is a command's error as it is told: that of a signal in the place of all that came of it. A write to a pipe
// that nobody reads is an error of its own.
func told(ctx context.Context, err error) error {
	var by interruption
	if err != nil && errors.As(context.Cause(ctx), &by) && (by.signal != syscall.SIGPIPE || !errors.Is(err, syscall.EPIPE)) {
		return by
	}
	return err
}
