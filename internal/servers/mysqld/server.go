package mysqld

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/qrtz-go/qrtz/internal/servers/child"
)

// startLimit bounds a start whose context has no deadline of its own.
const startLimit = time.Minute

// ErrInUse is returned, wrapped, by Start when a server already runs in the directory.
var ErrInUse = errors.New("directory in use by another server")

// Options of a private server. The zero value is a throwaway server in a
// temporary directory, reachable by its socket only.
type Options struct {
	// Dir holds data, socket and error.log, and gets mode 0700.
	// Empty means a temporary directory that Stop removes.
	Dir string
	// Port listens on 127.0.0.1 as well. 0, the default, means socket only.
	Port int
	// Password is that of root at the port, of letters and digits. Empty means the one that is kept in Dir. By the
	// socket, which no other user can reach, root needs none.
	Password string
	// Durable flushes at every commit. Without it a power cut, though not the
	// death of the server process, may lose or damage data.
	Durable bool
	// Args are appended to the server's command line.
	Args []string
	// Env is added to the server's environment.
	Env []string
	// User is the account that the server runs as when this process is root, and to
	// which Dir is given. Empty is root itself.
	User string
	// Empty leaves a new data directory empty, for a server that gets its data from
	// another: a Galera node that joins.
	Empty bool

	detached bool // outlives this process; see Shared
}

// Server is a private server started by this process. Its methods may be called
// from several goroutines.
type Server struct {
	opts    Options
	path    string
	mariadb bool
	socket  string
	temp    bool // Dir is ours to remove
	account *account

	mu    sync.Mutex
	proc  *child.Process // its present life; nil when stopped
	guard *guard         // nil without one
}

// Start initialises the directory if it is new, starts a server in it and
// returns once it answers. ctx bounds the start only, to a minute if it has no
// deadline. Unless the server is the kept one of Shared, it dies with this process
// (on Linux also if this process is killed). The error holds the end of the server's log; it wraps
// ErrNotFound when no server is installed and ErrInUse when one runs in Dir.
func Start(ctx context.Context, opts Options) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	path, err := Find()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, path: path, temp: opts.Dir == ""}
	if s.mariadb, err = IsMariaDB(ctx, path); err != nil {
		return nil, err
	}
	if s.account, err = lookupAccount(opts.User); err != nil {
		return nil, err
	}
	if s.temp {
		if s.opts.Dir, err = os.MkdirTemp("", "qrtz-db-"); err != nil {
			return nil, err
		}
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.removeTemp())
	}
	return s, nil
}

// start initialises and starts; it must not run twice at once.
func (s *Server) start(ctx context.Context) error {
	dir, err := filepath.Abs(s.opts.Dir)
	if err != nil {
		return err
	}
	s.opts.Dir = dir
	if err := os.MkdirAll(s.tmpDir(), 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil { // it may have been there: a user who reaches the socket is root
		return err
	}
	if s.opts.Port != 0 && s.opts.Password == "" {
		if s.opts.Password, err = Password(dir); err != nil {
			return err
		}
	}
	if s.socket, err = socketPath(dir); err != nil {
		return err
	}
	if err := s.account.own(dir, s.tmpDir()); err != nil {
		return err
	}
	lock, err := lockServer(dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // the server has inherited it, and with it the lock
	if err := s.initialise(ctx, lock); err != nil {
		return err
	}
	proc, err := s.spawn(lock)
	if err != nil {
		return err
	}
	s.proc = proc
	if err := s.waitReady(ctx); err != nil {
		s.kill()
		return fmt.Errorf("start %s: %w\n%s", s.path, err, s.logTail())
	}
	return nil
}

// spawn starts the server program.
func (s *Server) spawn(lock *os.File) (*child.Process, error) {
	log, err := os.OpenFile(filepath.Join(s.opts.Dir, "error.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	// Not CommandContext: the server outlives the context of its start.
	cmd := exec.Command(s.path, s.args()...) //nolint:noctx // see above
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir, cmd.Env = s.opts.Dir, append(s.environ(), s.opts.Env...)
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = sysProcAttr(s.opts.detached, s.account)
	return child.Start(cmd)
}

// waitReady waits until the server answers on its socket and, if it listens on
// a port, lets root in there.
func (s *Server) waitReady(ctx context.Context) error {
	gone := func() error {
		if s.proc.Running() {
			return nil
		}
		return fmt.Errorf("the server ended: %w", s.proc.Wait())
	}
	if err := retry(ctx, func() (bool, error) {
		if err := gone(); err != nil {
			return false, err
		}
		return ping(ctx, s.socket) == nil, nil
	}); err != nil {
		return err
	}
	if s.opts.Port == 0 {
		return nil
	}
	return s.guardPort(func(statement string) error { return execute(ctx, s.socket, statement) })
}

// DSN returns the go-sql-driver DSN of a database (empty for none) for root,
// by TCP if the server has a port, else by its socket.
func (s *Server) DSN(database string) string {
	if s.opts.Port != 0 {
		return TCP(s.opts.Port, s.opts.Password, database)
	}
	return dsn("unix", s.socket, "", database)
}

// PID returns the process id of the server, 0 when it is stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.PID()
}

// Stop shuts the server down cleanly, waits for it until ctx ends, and removes a
// temporary directory. A server that is already down is no error.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(ctx); err != nil {
		return err
	}
	s.guard.dismiss()
	s.guard = nil
	return s.removeTemp()
}

// Kill ends the server with SIGKILL and waits until it is gone. Its directory stays.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// Restart stops the server if it still runs and starts it again on the same data,
// socket and port. It also brings back a server that was killed.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.stop(ctx); err != nil {
		return err
	}
	return s.start(ctx)
}

func (s *Server) stop(ctx context.Context) error {
	if s.proc == nil {
		return nil
	}
	s.proc.Signal(syscall.SIGTERM)
	select {
	case <-s.proc.Done():
		s.proc = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop server %d: %w\n%s", s.proc.PID(), ctx.Err(), s.logTail())
	}
}

func (s *Server) kill() {
	if s.proc != nil {
		s.proc.Kill()
		s.proc = nil
	}
}

func (s *Server) removeTemp() error {
	if !s.temp {
		return nil
	}
	return os.RemoveAll(s.opts.Dir)
}

func (s *Server) dataDir() string { return filepath.Join(s.opts.Dir, "data") }
func (s *Server) tmpDir() string  { return filepath.Join(s.opts.Dir, "tmp") }
func (s *Server) pidFile() string { return pidFile(s.opts.Dir) }

func pidFile(dir string) string { return filepath.Join(dir, "pid") }

// readPID returns the process id in a pid file, 0 when there is none.
func readPID(dir string) int {
	text, err := os.ReadFile(pidFile(dir))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// logTail returns the last 4 KB of the server's log.
func (s *Server) logTail() string {
	text, err := os.ReadFile(filepath.Join(s.opts.Dir, "error.log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}
