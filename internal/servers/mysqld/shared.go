package mysqld

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockRetry is how often a lock held by another process is tried again.
const lockRetry = 10 * time.Millisecond

// Lease is one user's claim on the kept server of a directory. The server runs as
// long as any process holds one.
//
// Three locks in the directory make that race free; the kernel drops each when
// its holder dies, however it dies:
//   - gate.lock, exclusive: a process is starting or stopping the server;
//   - users.lock, shared: one per lease;
//   - server.lock, exclusive: inherited by the server itself (and by the program
//     that initialises its data), so it is free exactly when none runs.
type Lease struct {
	dir, socket string
	users       *flock.Flock
}

// Shared returns a lease on the kept server of dir. It starts the server,
// durable, without a port and in a session of its own, so that a Ctrl-C does
// not reach it, unless it already runs: for another process, or left over by one
// that was killed. ctx bounds the wait only, to a minute if it has no deadline.
func Shared(ctx context.Context, dir string) (*Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	socket, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	gate, err := lockGate(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = gate.Unlock() }()
	l := &Lease{dir: dir, socket: socket, users: flock.New(filepath.Join(dir, "users.lock"))}
	if _, err := l.users.TryRLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.users.Path(), err)
	}
	if err := l.ensure(ctx); err != nil {
		return nil, errors.Join(err, l.users.Unlock())
	}
	return l, nil
}

// ensure adopts the server that answers, or starts one. A server that holds the
// lock without answering is on its way up or down: it is waited for.
func (l *Lease) ensure(ctx context.Context) error {
	return retry(ctx, func() (bool, error) {
		if ping(ctx, l.socket) == nil {
			return true, nil
		}
		_, err := Start(ctx, Options{Dir: l.dir, Durable: true, detached: true})
		if errors.Is(err, ErrInUse) {
			return false, nil
		}
		return err == nil, err
	})
}

// DSN returns the go-sql-driver DSN of a database (empty for none) for root.
func (l *Lease) DSN(database string) string { return dsn("unix", l.socket, "", database) }

// Socket returns the path of the server's Unix socket.
func (l *Lease) Socket() string { return l.socket }

// PID returns the process id of the server, 0 if it has been stopped.
func (l *Lease) PID() int { return readPID(l.dir) }

// Leave gives the lease up and lets the server run, even without a user, until
// the next lease is released. It is what happens to a killed process's lease.
func (l *Lease) Leave() error { return l.users.Unlock() }

// Release gives the lease up and, if it was the last one, stops the server and
// waits until it is gone or ctx ends.
func (l *Lease) Release(ctx context.Context) error {
	gate, err := lockGate(ctx, l.dir)
	if err != nil {
		return errors.Join(err, l.users.Unlock())
	}
	defer func() { _ = gate.Unlock() }()
	if err := l.users.Unlock(); err != nil {
		return err
	}
	last, err := l.users.TryLock()
	if !last || err != nil {
		return err
	}
	defer func() { _ = l.users.Unlock() }()
	return l.shutdown(ctx)
}

// shutdown ends the server by a statement rather than a signal, because its
// process id may have been another process's once the server has died.
func (l *Lease) shutdown(ctx context.Context) error {
	asked := execute(ctx, l.socket, "SHUTDOWN") // may also fail because the server is quick to go
	return retry(ctx, func() (bool, error) {
		lock, err := lockServer(l.dir)
		if err == nil {
			return true, lock.Close()
		}
		if !errors.Is(err, ErrInUse) {
			return false, err
		}
		if asked != nil && ping(ctx, l.socket) == nil {
			return false, fmt.Errorf("stop server of %s: %w", l.dir, asked)
		}
		return false, nil
	})
}

// lockGate takes the lock under which servers are started and stopped.
func lockGate(ctx context.Context, dir string) (*flock.Flock, error) {
	gate := flock.New(filepath.Join(dir, "gate.lock"))
	if _, err := gate.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("lock %s: %w", gate.Path(), err)
	}
	return gate, nil
}
