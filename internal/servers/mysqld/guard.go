package mysqld

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// guard is a shell that waits for the end of this process, however it ends, and then removes what is left of a throwaway server.
type guard struct{ tell io.WriteCloser }

// The shell reads from a pipe whose other end only this process has: its end is the end of the input. The server dies with this
// process on Linux; elsewhere it is killed here. It may still write while the files are removed, hence twice.
const guardScript = `read -r line; [ "$line" = stopped ] && exit
kill -9 "$1"; rm -rf "$2" || { sleep 1; rm -rf "$2"; }`

// Guard has a throwaway server and its directory removed when this process ends without a call of Stop, as a test binary does
// that has no TestMain, or is killed. The server must not be restarted. Where there is no shell, Guard does nothing.
func (s *Server) Guard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.temp || s.proc == nil || s.guard != nil {
		return errors.New("only a throwaway server that runs can be guarded, and only once")
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		return nil // its directory is left behind
	}
	cmd := exec.Command(shell, "-c", guardScript, "qrtz-guard", fmt.Sprint(s.proc.PID()), s.opts.Dir) //nolint:noctx // it outlives this process
	cmd.SysProcAttr = sysProcAttr(true, nil)                                                          // a Ctrl-C is not for it
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("guard %s: %w", s.opts.Dir, err)
	}
	go func() { _ = cmd.Wait() }() // which reaps it
	s.guard = &guard{pipe}
	return nil
}

// dismiss tells the guard that there is nothing left to do.
func (g *guard) dismiss() {
	if g != nil {
		_, _ = io.WriteString(g.tell, "stopped\n")
		_ = g.tell.Close()
	}
}
