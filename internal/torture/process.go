package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is the place of one worker in the cluster: one life after the other, under the same node id.
type process struct {
	app, id string
	spec    workerSpec
	dir     string

	trouble
	mu     sync.Mutex
	lives  int
	cmd    *exec.Cmd
	stdin  interface{ Close() error }
	done   chan struct{} // closed when the present life is over
	err    error         // with which it ended
	frozen []span        // when it stood still
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives++
	p.spec.Record = filepath.Join(p.dir, fmt.Sprintf("%s-%s-%d.jsonl", p.app, p.id, p.lives))
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
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
	cmd.Stdout, cmd.Stderr = log, log
	if p.stdin, err = cmd.StdinPipe(); err != nil { // its end tells the worker that we are gone
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s-%s: %w", p.app, p.id, err)
	}
	done := make(chan struct{})
	p.cmd, p.done, p.err = cmd, done, nil
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(done)
	}()
	return nil
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // it may just have ended
	}
}

// ended is closed when the present life is over.
func (p *process) ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended()
}

// stop asks the process to stop, as a container runtime does. The error says that it did not within limit, or how it failed.
func (p *process) stop(limit time.Duration) error {
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended():
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.err != nil {
			return fmt.Errorf("%s-%s: SIGTERM: %w", p.app, p.id, p.err)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("%s-%s did not stop within %s of SIGTERM", p.app, p.id, limit)
	}
}

func (p *process) freeze() {
	p.mu.Lock()
	p.frozen = append(p.frozen, span{from: time.Now()})
	p.mu.Unlock()
	p.signal(syscall.SIGSTOP)
}

func (p *process) thaw() {
	p.signal(syscall.SIGCONT)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen[len(p.frozen)-1].until = time.Now()
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

// died tells whether the process has ended by itself, which it never should.
func (p *process) died() (error, bool) {
	if p.taken() {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return p.err, true
	default:
		return nil, false
	}
}
