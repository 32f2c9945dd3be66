package main

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "github.com/go-sql-driver/mysql" // the databases that killed tests leave behind are dropped

	"github.com/qrtz-go/qrtz/internal/proof/mutants/switchboard"
)

const (
	testLimit   = 3 * time.Minute         // of a test without a mutation
	graceful    = 10 * time.Second        // that tests may always take, beside
	patience    = 5                       // times as long as they took without
	firstBatch  = 1500 * time.Millisecond // of tests that one process runs; each further one may take twice as long
	mostMemory  = 3 << 30                 // of a process, in bytes: more is a loop that allocates
	memoryEvery = 200 * time.Millisecond
	cleanLimit  = 10 * time.Second
)

// suite is the tests of one package, in a binary that has all mutations.
type suite struct {
	name   string // of the stage
	dir    string
	binary string
	tests  []*test
	broken []string // that fail without a mutation
}

type test struct {
	name    string
	takes   time.Duration
	reaches []byte // by id
}

// bench is what trials share.
type bench struct {
	*board
	module string // where it is
	dir    string // for files
	dsn    string
	jobs   int
}

// build compiles the tests of a package.
func (b *bench) build(ctx context.Context, overlay, name, dir string) (*suite, error) {
	s := &suite{name: name, dir: filepath.Join(b.module, dir), binary: filepath.Join(b.dir, strings.ReplaceAll(name, "/", "_")+".test")}
	return s, s.compile(ctx, []string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", s.binary, "."})
}

// survey runs each test alone, and notes how long it takes and what it reaches.
func (b *bench) survey(ctx context.Context, s *suite) error {
	cmd := exec.CommandContext(ctx, s.binary, "-test.list", "^(Test|Example|Fuzz)")
	cmd.Dir = s.dir
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the tests of %s: %w", s.name, err)
	}
	for _, name := range strings.Fields(string(out)) {
		s.tests = append(s.tests, &test{name: name})
	}
	broken := make([]string, len(s.tests))
	err = each(b.jobs, len(s.tests), func(i int) error {
		t := s.tests[i]
		path := filepath.Join(b.dir, fmt.Sprintf("reached-%s-%d", strings.ReplaceAll(s.name, "/", "_"), i))
		if err := os.WriteFile(path, make([]byte, b.last+1), 0o600); err != nil {
			return err
		}
		began := time.Now()
		ran := b.run(ctx, s, 0, testLimit, "^"+t.name+"$", switchboard.ReachedEnv+"="+path)
		t.takes = time.Since(began)
		if ran.failed {
			broken[i] = t.name
		}
		var err error
		t.reaches, err = os.ReadFile(path)
		return errors.Join(err, os.Remove(path))
	})
	s.broken = slices.DeleteFunc(broken, func(name string) bool { return name == "" })
	s.tests = slices.DeleteFunc(s.tests, func(t *test) bool { return slices.Contains(s.broken, t.name) })
	slices.SortStableFunc(s.tests, func(x, y *test) int { return cmp.Compare(x.takes, y.takes) })
	return err
}

// each calls f for all of n, some at a time.
func each(jobs, n int, f func(i int) error) error {
	var all sync.WaitGroup
	next := make(chan int)
	errs := make([]error, n)
	for range jobs {
		all.Go(func() {
			for i := range next {
				errs[i] = f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return errors.Join(errs...)
}

// that reach a point, the quickest first.
func (b *bench) that(s *suite, p *point) (tests []*test) {
	ids := []int{p.id}
	for _, t := range b.texts {
		if slices.Contains(t.points, p) {
			ids = append(ids, t.group)
		}
	}
	for _, t := range s.tests {
		if slices.ContainsFunc(ids, func(id int) bool { return t.reaches[id] != 0 }) {
			tests = append(tests, t)
		}
	}
	return tests
}

// notice runs the tests that reach a point, with its mutation, until one fails. A test has to fail twice.
func (b *bench) notice(ctx context.Context, s *suite, p *point) (by string, reached int) {
	tests := b.that(s, p)
	reached = len(tests)
	for size := firstBatch; len(tests) > 0; size *= 2 {
		var batch []*test
		var takes time.Duration
		for len(tests) > 0 && (len(batch) == 0 || takes+tests[0].takes <= size) {
			batch, takes, tests = append(batch, tests[0]), takes+tests[0].takes, tests[1:]
		}
		for len(batch) > 0 && ctx.Err() == nil {
			ran := b.run(ctx, s, p.id, limit(takes), pattern(batch))
			if !ran.failed {
				break
			}
			if ran.ended != "" {
				return ran.ended, reached
			}
			again := slices.Clone(batch)
			if i := slices.IndexFunc(batch, func(t *test) bool { return t.name == ran.test }); i >= 0 {
				again = batch[i : i+1 : i+1]
				batch = slices.Delete(slices.Clone(batch), i, i+1)
			} else {
				batch = nil
			}
			if b.run(ctx, s, p.id, limit(takes), pattern(again)).failed {
				return cmp.Or(ran.test, "panic"), reached
			}
		}
	}
	return "", reached
}

func limit(takes time.Duration) time.Duration { return patience*takes + graceful }

func pattern(tests []*test) string {
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.name
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// ran is how tests ended.
type ran struct {
	failed bool
	test   string // that failed; empty if the output does not say
	ended  string // why they were killed, if they were
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// run runs tests of a suite with a mutation.
func (b *bench) run(ctx context.Context, s *suite, id int, limit time.Duration, tests string, env ...string) ran {
	return b.command(ctx, s.dir, id, limit, env, s.binary, "-test.run", tests, "-test.failfast", "-test.timeout", limit.String())
}

// command runs a program with a mutation. It is killed, with all that it has started, when it takes too long or too much.
func (b *bench) command(ctx context.Context, dir string, id int, limit time.Duration, env []string, name string, args ...string) ran {
	cmd := exec.Command(name, args...) //nolint:noctx // its whole group is killed, below
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, &out, &out, time.Second
	cmd.Env = append(os.Environ(), "QRTZ_TEST_DSN="+b.dsn, switchboard.Env+"="+strconv.Itoa(id))
	cmd.Env = append(cmd.Env, env...)
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return ran{failed: true, ended: err.Error()}
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	deadline, memory := time.NewTimer(limit+5*time.Second), time.NewTicker(memoryEvery)
	defer deadline.Stop()
	defer memory.Stop()
	var ended string
	for {
		select {
		case err := <-done:
			killGroup(cmd) // what it has left
			if err == nil && ended == "" {
				return ran{}
			}
			b.clean(context.WithoutCancel(ctx), cmd.Process.Pid)
			if strings.Contains(out.String(), "panic: test timed out") {
				ended = "timeout"
			}
			found := ran{failed: true, ended: ended}
			if m := failedTest.FindStringSubmatch(out.String()); m != nil {
				found.test, _, _ = strings.Cut(m[1], "/")
			}
			return found
		case <-ctx.Done():
			ended = "interrupted"
		case <-deadline.C:
			ended = "timeout"
		case <-memory.C:
			if resident(cmd.Process.Pid) < mostMemory {
				continue
			}
			ended = "memory"
		}
		killGroup(cmd)
		ctx = context.WithoutCancel(ctx)
	}
}

// resident is how much memory a process uses, as far as the machine tells.
func resident(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize()
}

// clean drops the databases that tests have left behind.
func (b *bench) clean(ctx context.Context, pid int) {
	db, err := sql.Open("mysql", b.dsn)
	if err != nil {
		return
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	for {
		var name string
		const leftSQL = `SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE ? LIMIT 1`
		if db.QueryRowContext(ctx, leftSQL, fmt.Sprintf(`qrtz\_test\_%d\_%%`, pid)).Scan(&name) != nil {
			return
		}
		if _, err := db.ExecContext(ctx, "DROP DATABASE `"+name+"`"); err != nil {
			return
		}
	}
}

// compile builds a program that is not the tests of a package.
func (s *suite) compile(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", s.name, err, out)
	}
	return nil
}
