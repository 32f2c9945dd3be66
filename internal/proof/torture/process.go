package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/qrtz-go/qrtz/internal/servers/child"
)

// process is the place of one worker in the cluster: one life after the other, under the same node id.
type process struct {
	app, id string
	spec    workerSpec
	line    *line // nil if it reaches the database directly
	dir     string

	trouble
	absent spans       // when it was dead or stood still, or was cut off
	away   atomic.Bool // of an exact app: it is to be dead now

	mu     sync.Mutex
	lives  int
	child  *child.Process  // the present life; nil before the first
	frozen []span          // when it stood still
	drains map[string]span // of a life, from SIGTERM to its end
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives++
	p.spec.Record = filepath.Join(p.dir, p.nameOfLife()+".jsonl")
	spec, err := json.Marshal(p.spec)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(p.dir, p.app+"-"+p.id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the worker has its own
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
	cmd.Stdout, cmd.Stderr = log, log
	if p.spec.Namespace {
		cmd.SysProcAttr = ownNamespace()
	}
	if p.child, err = child.Start(cmd); err != nil {
		return fmt.Errorf("start %s-%s: %w", p.app, p.id, err)
	}
	return nil
}

func (p *process) nameOfLife() string { return fmt.Sprintf("%s-%s-%d", p.app, p.id, p.lives) }

// lifeName is how its present life is called in the records.
func (p *process) lifeName() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nameOfLife()
}

// life is the present one; nil before the first.
func (p *process) life() *child.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

func (p *process) kill() { p.life().Kill() }

// stop asks the process to stop, as a container runtime does. The error says that it did not within limit, or how it failed.
func (p *process) stop(limit time.Duration) error {
	life := p.life()
	defer p.drain()()
	life.Signal(syscall.SIGTERM)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-life.Done():
		if err := life.Wait(); err != nil && !terminated(err) {
			return fmt.Errorf("%s-%s: SIGTERM: %w", p.app, p.id, err)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("%s-%s did not stop within %s of SIGTERM", p.app, p.id, limit)
	}
}

// terminated tells whether a process was ended by SIGTERM itself: it had been started just before, and did not heed it yet.
func terminated(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// drain notes that the present life has been asked to stop; the function that it returns, that it has.
func (p *process) drain() (gone func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	life, from := p.nameOfLife(), time.Now()
	if p.drains == nil {
		p.drains = map[string]span{}
	}
	p.drains[life] = span{from: from}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.drains[life] = span{from, time.Now()}
	}
}

// drained is when a life was asked to stop, and when it had; ok is false if it was not asked.
func (p *process) drained(life string) (s span, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok = p.drains[life]
	return s, ok
}

func (p *process) freeze() {
	p.mu.Lock()
	p.frozen = append(p.frozen, span{from: time.Now()})
	p.mu.Unlock()
	p.life().Signal(syscall.SIGSTOP)
}

func (p *process) thaw() {
	p.mu.Lock()
	p.frozen[len(p.frozen)-1].until = time.Now()
	p.mu.Unlock()
	p.life().Signal(syscall.SIGCONT)
}

// stoodStill tells whether the process was frozen at some time between two.
func (p *process) stoodStill(from, until time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.frozen {
		if s.touches(from, until) {
			return true
		}
	}
	return false
}

// thawed is when the process last continued after standing still, before a time; zero if it never did.
func (p *process) thawed(before time.Time) (last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.frozen {
		if s.from.Before(before) {
			last = orNow(s.until)
		}
	}
	return last
}

// died tells how the process has ended by itself, which it never should.
func (p *process) died() error {
	life := p.life()
	if p.taken() || p.away.Load() || life == nil || life.Running() {
		return nil
	}
	err := life.Wait()
	if err == nil {
		err = errors.New("exit code 0")
	}
	return fmt.Errorf("worker %s-%s has ended by itself: %w", p.app, p.id, err)
}
