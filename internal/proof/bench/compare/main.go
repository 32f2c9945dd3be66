// Compare measures this state of the repository beside an earlier one, in turns, on one server: make bench/compare.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/qrtz-go/qrtz/internal/proof/bench"
)

// measureDirs are where the program is that times claims: in this state of the repository, and in earlier ones.
var measureDirs = []string{"internal/proof/claimtime", "internal/claimtime"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o bench.CompareOptions
	base := flag.String("base", "", "the commit to compare with")
	flag.IntVar(&o.Rounds, "rounds", 5, "how often to time claims, by socket and with a delay")
	flag.IntVar(&o.Loads, "loads", 1, "in how many of these rounds to look for the load that is kept up with")
	flag.Parse()
	o.Progress = os.Stderr
	if err := run(ctx, *base, o); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, base string, o bench.CompareOptions) (err error) {
	if base == "" {
		return errors.New("which commit? make bench/compare BASE=<commit>")
	}
	dir, err := os.MkdirTemp("", "qrtz-compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tree := filepath.Join(dir, "tree")
	if err := command(ctx, ".", "git", "worktree", "add", "--quiet", "--detach", tree, base); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, command(context.WithoutCancel(ctx), ".", "git", "worktree", "remove", "--force", tree))
	}()
	if o.Head, err = build(ctx, ".", filepath.Join(dir, "head"), measureDirs[0], ""); err != nil {
		return err
	}
	measureDir, tags, err := lend(tree)
	if err != nil {
		return err
	}
	if o.Base, err = build(ctx, tree, filepath.Join(dir, "base"), measureDir, tags); err != nil {
		return err
	}
	found, err := bench.Compare(ctx, o)
	return errors.Join(err, bench.PrintComparison(os.Stdout, found))
}

// lend copies the measuring of claims into a tree from before there was one. It returns where it is in the tree, and the tags
// with which it builds there.
func lend(tree string) (measureDir, tags string, err error) {
	for _, measureDir := range measureDirs {
		if _, err := os.Stat(filepath.Join(tree, measureDir)); err == nil {
			return measureDir, "", nil
		}
	}
	return measureDirs[0], "earlier", os.CopyFS(filepath.Join(tree, measureDirs[0]), os.DirFS(measureDirs[0]))
}

// build builds the programs of a tree into a directory.
func build(ctx context.Context, tree, into, measureDir, tags string) (bench.Program, error) {
	p := bench.Program{Qrtz: filepath.Join(into, "qrtz"), ClaimTime: filepath.Join(into, "claimtime")}
	for out, of := range map[string]string{p.Qrtz: "./cmd/qrtz", p.ClaimTime: "./" + measureDir + "/cmd"} {
		if err := command(ctx, tree, "go", "build", "-tags", tags, "-o", out, of); err != nil {
			return p, err
		}
	}
	return p, nil
}

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}
