package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/internal/proof/bench"
	"github.com/qrtz-go/qrtz/internal/servers/child"
)

// line is one line of what a process says on its standard output, with one of these.
type line struct {
	Ready  string  `json:"ready,omitempty"`  // it takes part from now on: what it is
	Window *window `json:"window,omitempty"` // one is over
	End    *ending `json:"end,omitempty"`    // all is over
}

// window is what has started within one of the spans that a process was asked to watch.
type window struct {
	Index int     `json:"index"`
	Late  []int64 `json:"late"` // microseconds after the fire time; below 0 is early
}

// ending is what a process has enqueued and started, in microseconds since 1970, by the number of the run.
type ending struct {
	First     int64           `json:"first,omitempty"` // start of a handler
	Started   map[int64]int64 `json:"started,omitempty"`
	Committed map[int64]int64 `json:"committed,omitempty"`
	Twice     int             `json:"twice,omitempty"` // handlers that were started for a run that had been started
}

// process is one of a crew, seen by its parent.
type process struct {
	*child.Process
	in      io.Closer
	windows chan window
	ready   chan struct{}
	read    chan struct{} // closed once all lines were read

	mu       sync.Mutex
	about    string
	end      *ending
	said     error
	complain tail
}

const (
	readyLimit = 30 * time.Second // a JVM beside a busy database
	endLimit   = 60 * time.Second
)

// start starts a program that speaks in lines. It ends when its standard input does, and so with this process.
func start(program string, args, env []string) (*process, error) {
	p := &process{windows: make(chan window, 64), ready: make(chan struct{}), read: make(chan struct{})}
	cmd := exec.Command(program, args...) //nolint:noctx // it is ended by its standard input
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = &p.complain
	cmd.WaitDelay = time.Second // for what a process of its own may still say
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A pipe of our own: that of the command is closed by Wait, which the child is reaped by, before all of it was read.
	out, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, p.in = end, in
	p.Process, err = child.Start(cmd)
	_ = end.Close()
	if err != nil {
		_ = out.Close()
		return nil, err
	}
	go func() {
		defer close(p.read)
		defer func() { _ = out.Close() }()
		p.follow(out)
	}()
	return p, nil
}

// follow reads the lines.
func (p *process) follow(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			p.mu.Lock()
			p.said = fmt.Errorf("it said %.200q: %w", text, err)
			p.mu.Unlock()
			return
		}
		p.mu.Lock()
		switch {
		case l.Ready != "":
			if p.about == "" {
				p.about = l.Ready
				close(p.ready)
			}
		case l.End != nil:
			p.end = l.End
		}
		p.mu.Unlock()
		if l.Window != nil {
			p.windows <- *l.Window
		}
	}
}

var errEnded = errors.New("the process has ended")

// failed adds to an error what the process has said of it.
func (p *process) failed(err error) error {
	select {
	case <-p.Done(): // all that it had to say is there
	case <-time.After(time.Second):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%w\n%s", errors.Join(err, p.said), p.complain.String())
}

// crew is some processes of one peer.
type crew []*process

// join waits until all take part.
func (c crew) join(ctx context.Context) error {
	limit := time.After(readyLimit)
	for _, p := range c {
		select {
		case <-p.ready:
		case <-p.read:
			return p.failed(errEnded)
		case <-limit:
			return p.failed(fmt.Errorf("not ready within %s", readyLimit))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// about says what the first is.
func (c crew) about() string {
	if len(c) == 0 {
		return ""
	}
	c[0].mu.Lock()
	defer c[0].mu.Unlock()
	return c[0].about
}

// window waits for the next window of each and adds them up.
func (c crew) window(ctx context.Context) (window, error) {
	var all window
	limit := time.After(readyLimit)
	for _, p := range c {
		select {
		case w := <-p.windows:
			all.Index, all.Late = w.Index, append(all.Late, w.Late...)
		case <-p.read:
			return all, p.failed(errEnded)
		case <-limit:
			return all, p.failed(fmt.Errorf("no window within %s", readyLimit))
		case <-ctx.Done():
			return all, ctx.Err()
		}
	}
	return all, nil
}

// cpu is what all have used until now.
func (c crew) cpu() (all time.Duration) {
	for _, p := range c {
		all += bench.ProcessorTime(p.PID())
	}
	return all
}

// stop ends them and adds up what they have seen.
func (c crew) stop() (ending, error) {
	defer c.kill()
	for _, p := range c {
		_ = p.in.Close()
	}
	all := ending{Started: map[int64]int64{}, Committed: map[int64]int64{}}
	limit := time.After(endLimit)
	for _, p := range c {
		select {
		case <-p.read:
		case <-limit:
			return all, p.failed(fmt.Errorf("did not end within %s", endLimit))
		}
		p.mu.Lock()
		end := p.end
		p.mu.Unlock()
		if end == nil {
			return all, p.failed(errEnded)
		}
		all.add(*end)
	}
	return all, nil
}

func (e *ending) add(one ending) {
	if e.First == 0 || one.First > 0 && one.First < e.First {
		e.First = one.First
	}
	e.Twice += one.Twice
	for n, at := range one.Started {
		before, ok := e.Started[n]
		if ok {
			e.Twice++
			at = min(at, before)
		}
		e.Started[n] = at
	}
	for n, at := range one.Committed {
		e.Committed[n] = at
	}
}

// kill ends what still runs.
func (c crew) kill() {
	for _, p := range c {
		_ = p.in.Close()
		p.Kill()
	}
}

// tail keeps the last of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4096

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}

// sleep waits, and tells whether it was not interrupted by the end of ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
