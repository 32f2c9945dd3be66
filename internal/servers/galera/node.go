package galera

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/qrtz-go/qrtz/internal/servers/mysqld"
)

// position is how far a stopped node's data are in the cluster's history.
type position struct {
	history string // the zero UUID if the node never was in a cluster
	seqno   int64  // -1 if unknown
}

func (p position) String() string { return fmt.Sprintf("%s:%d", p.history, p.seqno) }

var recovered = regexp.MustCompile(`Recovered position:? ([0-9a-f-]{36}):(-?\d+)`)

// position asks the server program, as a distribution's service does before it starts a node again: after
// a kill the answer is in InnoDB's log only. A directory without data has none.
func (c *Cluster) position(ctx context.Context, i int) (position, error) {
	if _, err := os.Stat(filepath.Join(c.dir(i), "data", "ibdata1")); err != nil {
		return position{seqno: -1}, nil //nolint:nilerr // nothing there yet
	}
	server, err := mysqld.Find()
	if err != nil {
		return position{}, err
	}
	args := append([]string{
		"--no-defaults", "--datadir=" + filepath.Join(c.dir(i), "data"), "--pid-file=" + filepath.Join(c.dir(i), "pid"),
		"--innodb-log-file-size=16M", "--wsrep-recover",
	}, c.args(i)...)
	if os.Geteuid() == 0 {
		args = append(args, "--user="+account)
	}
	out, err := exec.CommandContext(ctx, server, args...).CombinedOutput()
	found := recovered.FindSubmatch(out)
	if err != nil || found == nil {
		return position{}, fmt.Errorf("find the position of node %d: %w\n%s", i, err, out[max(0, len(out)-4096):])
	}
	seqno, err := strconv.ParseInt(string(found[2]), 10, 64)
	return position{history: string(found[1]), seqno: seqno}, err
}

// spawn starts a node, the first of a cluster or one that joins, and waits until it is synced.
func (c *Cluster) spawn(ctx context.Context, i int, first bool) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	at, err := c.position(ctx, i)
	if err != nil {
		return err
	}
	args := c.args(i)
	if first {
		if err := c.allowBootstrap(i); err != nil {
			return err
		}
		args = append(args, "--wsrep-new-cluster")
	}
	if at.seqno >= 0 {
		args = append(args, "--wsrep-start-position="+at.String())
	}
	server, err := mysqld.Start(ctx, mysqld.Options{
		Dir: c.dir(i), Port: c.ports.of(i).sql, Password: c.password, User: account, Empty: !first,
		Args: append(args, c.opts.Args...), Env: c.opts.Env,
	})
	if err != nil {
		return fmt.Errorf("node %d: %w", i, err)
	}
	c.nodes[i] = server
	return c.Ready(ctx, i)
}

// args is what makes a server a node.
func (c *Cluster) args(i int) []string {
	var members []string
	for k := range c.nodes {
		members = append(members, fmt.Sprintf("127.0.0.1:%d", c.ports.of(k).group))
	}
	p := c.ports.of(i)
	return []string{
		"--binlog-format=ROW", "--default-storage-engine=InnoDB", "--innodb-autoinc-lock-mode=2",
		"--wsrep-on=ON", "--wsrep-provider=" + c.provider, "--wsrep-cluster-name=qrtz",
		"--wsrep-cluster-address=gcomm://" + strings.Join(members, ","),
		fmt.Sprintf("--wsrep-node-name=n%d", i), fmt.Sprintf("--wsrep-node-address=127.0.0.1:%d", p.group),
		"--wsrep-sst-method=rsync", fmt.Sprintf("--wsrep-sst-receive-address=127.0.0.1:%d", p.sst), "--wsrep-slave-threads=2",
		// Without recovery of the primary component a killed node that is back asks the others who they are.
		fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:%d;ist.recv_addr=127.0.0.1:%d;gcache.size=32M;pc.recovery=false",
			p.group, p.ist),
	}
}

var safeToBootstrap = regexp.MustCompile(`(?m)^safe_to_bootstrap:.*$`)

// allowBootstrap says in a node's state file, if it has one, that a cluster may begin with it.
func (c *Cluster) allowBootstrap(i int) error {
	path := filepath.Join(c.dir(i), "data", "grastate.dat")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, safeToBootstrap.ReplaceAll(text, []byte("safe_to_bootstrap: 1")), 0o660)
}

// state reads whether a node takes statements, and its part in the cluster.
func (c *Cluster) state(ctx context.Context, i int) (string, error) {
	cfg, err := mysql.ParseDSN(c.DSN(i, ""))
	if err != nil {
		return "", err
	}
	cfg.Logger = &mysql.NopLogger{} // a node on its way up or down breaks connections
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return "", err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	var state string
	err = db.QueryRowContext(ctx, `
SELECT GROUP_CONCAT(VARIABLE_VALUE ORDER BY VARIABLE_NAME SEPARATOR ' ') FROM information_schema.GLOBAL_STATUS
 WHERE VARIABLE_NAME IN ('wsrep_cluster_status', 'wsrep_local_state_comment', 'wsrep_ready')`).Scan(&state)
	return state, err
}

// Ready waits until node i is synced and takes statements.
func (c *Cluster) Ready(ctx context.Context, i int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		state, err := c.state(ctx, i)
		if state == "Primary Synced ON" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("node %d is %q, not synced: %w", i, state, context.Cause(ctx)), err)
		case <-tick.C:
		}
	}
}
