package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// demo runs the shop with two processes at a time, while it is deployed and one of them is killed.
func demo(ctx context.Context, s *shop) error {
	var all []*exec.Cmd
	defer func() {
		for _, p := range all {
			_ = p.Process.Kill() // it may have ended
			_ = p.Wait()
		}
	}()
	start := func(node string, more ...string) (*exec.Cmd, error) {
		slog.Info("a process starts", "node", node)
		//nolint:gosec // it starts itself
		p := exec.Command(os.Args[0], append([]string{"-node", node, "-quick", "-night", "10s"}, more...)...) //nolint:noctx // it ends by signals
		p.Stdout, p.Stderr = os.Stdout, os.Stderr
		err := p.Start()
		if err == nil {
			all = append(all, p)
		}
		return p, err
	}
	first, err := start("first", "-place", "10")
	if err != nil {
		return err
	}
	second, err := start("second", "-place", "10")
	if err != nil {
		return err
	}
	if err := wait(ctx, 10*time.Second); err != nil {
		return err
	}
	slog.Info("a new version is deployed: SIGTERM", "node", "first")
	third, err := start("third", "-place", "10")
	if err != nil {
		return err
	}
	if err := errors.Join(first.Process.Signal(syscall.SIGTERM), first.Wait(), wait(ctx, 5*time.Second)); err != nil {
		return err
	}
	slog.Info("a machine dies: SIGKILL", "node", "second")
	if err := errors.Join(second.Process.Kill(), wait(ctx, 10*time.Second), third.Process.Signal(syscall.SIGTERM), third.Wait()); err != nil {
		return err
	}
	last, err := start("last") // which takes no orders, and does what is left
	if err != nil {
		return err
	}
	for {
		b, err := s.books(ctx)
		if err == nil && b.Open == 0 {
			return errors.Join(last.Process.Signal(syscall.SIGTERM), last.Wait(), printBooks(ctx, s))
		}
		if err := errors.Join(err, wait(ctx, time.Second)); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
}
