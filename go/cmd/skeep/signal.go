package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/skeep-project/skeep/go/internal/output"
	"golang.org/x/sys/unix"
)

// endings are the signals that end a command in order: what it was writing is removed, or kept and marked.
var endings = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGXCPU, syscall.SIGPIPE}

// interruption is the cause of a context that a signal ended.
type interruption struct{ signal os.Signal }

func (i interruption) Error() string { return "interrupted" }

// Unwrap makes it a cancellation like any other.
func (i interruption) Unwrap() error { return context.Canceled }

// endAtOnce ends the process by a signal's own effect; only what is half written is removed first.
func endAtOnce(s syscall.Signal) {
	output.RemoveAll()
	signal.Reset(s)
	runtime.LockOSThread() // the signal comes before the call that sends it ends
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), s)
	os.Exit(2) // SIGXCPU has no effect on a Go program
}

// interruptible is a context that the first signal ends, for the command to unwind. A second one ends the process at
// once, and so does SIGQUIT, which asks for the stacks of all goroutines.
func interruptible() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	arrived := make(chan os.Signal, 2)
	for _, s := range endings {
		if !signal.Ignored(s) { // as nohup and shells do for jobs in the background: it stays so
			signal.Notify(arrived, s)
		}
	}
	quit := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGQUIT) {
		signal.Notify(quit, syscall.SIGQUIT)
	}
	go func() {
		<-quit
		endAtOnce(syscall.SIGQUIT)
	}()
	go func() {
		cancel(interruption{<-arrived})
		for s := range arrived {
			if number, ok := s.(syscall.Signal); ok && s != syscall.SIGPIPE { // which each further write brings
				endAtOnce(number)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(arrived)
		signal.Stop(quit)
	}
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
