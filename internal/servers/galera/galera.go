// Package galera runs a Galera cluster of private MariaDB servers on the loopback
// interface, for tests and torture. It needs MariaDB, the Galera library and rsync.
package galera

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

// account is who the servers run as when this process is root: root's rsync would
// receive the data as nobody.
const account = "mysql"

// startLimit bounds the start of one node, its transfer of data included.
const startLimit = time.Minute

// ErrUnavailable is returned, wrapped, when this machine lacks what a cluster needs.
var ErrUnavailable = errors.New("no Galera cluster on this machine")

// Options of a cluster. The zero value is a throwaway cluster of three nodes.
type Options struct {
	// Nodes is how many servers the cluster has, 1 to 10. Defaults to 3.
	Nodes int
	// Dir holds a directory per node and is created if need be; user mysql must be
	// able to enter it when this process is root. Empty means a temporary directory
	// that Stop removes.
	Dir string
	// Args are appended to each server's command line.
	Args []string
	// Env is added to each server's environment.
	Env []string
}

// Cluster is a Galera cluster whose servers die with this process (on Linux also
// if it is killed). Its methods may be called from several goroutines.
type Cluster struct {
	password string // of root at the ports; the nodes share their accounts
	opts     Options
	provider string
	ports    *block
	temp     bool // Dir is ours to remove

	mu    sync.Mutex
	nodes []*mysqld.Server // nil when not running
}

// Find returns the Galera library, or an error that wraps ErrUnavailable and says what is missing.
func Find(ctx context.Context) (provider string, err error) {
	server, err := mysqld.Find()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if mariadb, err := mysqld.IsMariaDB(ctx, server); err != nil || !mariadb {
		return "", errors.Join(fmt.Errorf("%w: %s is not MariaDB", ErrUnavailable, server), err)
	}
	if _, err := exec.LookPath("rsync"); err != nil {
		return "", fmt.Errorf("%w: rsync not found (Debian, Ubuntu: apt-get install rsync)", ErrUnavailable)
	}
	for _, dir := range []string{"/usr/lib/galera", "/usr/lib64/galera-4", "/usr/lib64/galera", "/usr/local/lib/galera"} {
		path := filepath.Join(dir, "libgalera_smm.so")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: libgalera_smm.so not found (Debian, Ubuntu: apt-get install galera-4)", ErrUnavailable)
}

// Start starts a new cluster and returns once all its nodes are synced, in about
// 10 s for three; in a Dir that holds a cluster's data already, see Recover. ctx bounds the start only. The error wraps ErrUnavailable
// when something is not installed.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	provider, err := Find(ctx)
	if err != nil {
		return nil, err
	}
	if opts.Nodes == 0 {
		opts.Nodes = 3
	}
	if opts.Nodes < 1 || opts.Nodes > maxNodes {
		return nil, fmt.Errorf("a cluster of %d nodes: 1 to %d are possible", opts.Nodes, maxNodes)
	}
	c := &Cluster{opts: opts, provider: provider, temp: opts.Dir == "", nodes: make([]*mysqld.Server, opts.Nodes)}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if err := c.Recover(ctx); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// prepare makes the directory and takes the ports.
func (c *Cluster) prepare() (err error) {
	if c.temp {
		if c.opts.Dir, err = os.MkdirTemp("", "qrtz-galera-"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.opts.Dir, 0o711); err != nil {
		return err
	}
	if err := os.Chmod(c.opts.Dir, 0o711); err != nil { // the servers, if they run as mysql, go through
		return err
	}
	if c.password, err = mysqld.Password(c.opts.Dir); err != nil {
		return err
	}
	c.ports, err = takePorts(c.opts.Nodes)
	return err
}

// Nodes returns how many nodes the cluster has, running or not. They are numbered from 0.
func (c *Cluster) Nodes() int { return c.opts.Nodes }

// DSN returns the go-sql-driver DSN of a database (empty for none) on node i for root.
func (c *Cluster) DSN(i int, database string) string {
	return mysqld.TCP(c.ports.of(i).sql, c.password, database)
}

// PID returns the process id of node i, 0 when it does not run.
func (c *Cluster) PID(i int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[i] == nil {
		return 0
	}
	return c.nodes[i].PID()
}

// Kill ends node i with SIGKILL and waits until it is gone. The others miss it after
// about 5 s (evs.suspect_timeout) and answer no COMMIT until then. If what is left by
// then is not the majority, it refuses all statements until Recover.
func (c *Cluster) Kill(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[i] != nil {
		c.nodes[i].Kill()
		c.nodes[i] = nil
	}
}

// Rejoin starts node i again, which catches up with the others, and waits until it is
// synced. The majority must run: else see Recover.
func (c *Cluster) Rejoin(ctx context.Context, i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[i] != nil {
		return nil
	}
	if 2*c.running() <= c.opts.Nodes {
		return fmt.Errorf("node %d has no majority to join", i)
	}
	return c.spawn(ctx, i, false)
}

// Recover starts all nodes that do not run. Unless the majority runs it kills what is
// left and begins again with the node whose data are the most advanced, so that nothing
// is lost that a COMMIT had promised.
func (c *Cluster) Recover(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if 2*c.running() <= c.opts.Nodes {
		for i, node := range c.nodes {
			if node != nil {
				node.Kill()
				c.nodes[i] = nil
			}
		}
		best, err := c.mostAdvanced(ctx)
		if err != nil {
			return err
		}
		if err := c.spawn(ctx, best, true); err != nil {
			return err
		}
	}
	// One after the other: two that join at once were seen to take 6 s longer.
	for i, node := range c.nodes {
		if node == nil {
			if err := c.spawn(ctx, i, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cluster) mostAdvanced(ctx context.Context) (best int, err error) {
	highest := int64(-2)
	for i := range c.nodes {
		at, err := c.position(ctx, i)
		if err != nil {
			return 0, err
		}
		if at.seqno > highest {
			best, highest = i, at.seqno
		}
	}
	return best, nil
}

func (c *Cluster) running() (n int) {
	for _, node := range c.nodes {
		if node != nil {
			n++
		}
	}
	return n
}

// Stop shuts all nodes down cleanly, waits for them until ctx ends, and removes a
// temporary directory.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for i, node := range c.nodes {
		if node == nil {
			continue
		}
		if err := node.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("node %d: %w", i, err))
			node.Kill()
		}
		c.nodes[i] = nil
	}
	errs = append(errs, c.ports.release())
	if c.temp {
		errs = append(errs, os.RemoveAll(c.opts.Dir))
	}
	return errors.Join(errs...)
}

func (c *Cluster) dir(i int) string { return filepath.Join(c.opts.Dir, "n"+strconv.Itoa(i)) }
