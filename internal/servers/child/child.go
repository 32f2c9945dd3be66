// Package child starts programs that die with this process, however it ends (on Linux), and out of reach of the
// terminal's Ctrl-C, which their parent passes on in its own way.
package child

import (
	"os"
	"os/exec"
	"runtime"
)

// Process is a child that has been started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it is reaped and err is set
	err  error
}

// Start starts cmd, with attributes of its own if it has some. The goroutine that does keeps its thread until the child ends,
// because Linux sends the parent-death signal when the starting thread ends, not the process.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = attr()
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends it a signal. That it has ended is no error.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Done is closed once it has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running tells whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits until it has ended and says how.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Kill ends it with SIGKILL, if it still runs, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}
