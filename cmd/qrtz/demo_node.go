package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/qrtz-go/qrtz/internal/servers/child"
)

// nodeStopLimit bounds how long a node may take to drain.
const nodeStopLimit = 15 * time.Second

// demoNode is one node of the demo, in one life after another.
type demoNode struct {
	id   string
	args []string
	env  []string
	log  string

	process *child.Process // nil once it has been killed or stopped
}

func (d *demo) startNodes(ctx context.Context, n int) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{program, "node", "run", "--app", demoApp, "--prefix", string(d.prefix)}
	if d.length < demoQuick {
		quick := []string{"--poll", "1s", "--misfire-interval", "3s", "--misfire-after", "20s", "--node-timeout", "5s"}
		args = append(args, quick...)
		printf(d.out, "settings for a short demo: %s\n", strings.Join(quick, " "))
	}
	for i := range n {
		id := fmt.Sprintf("node-%d", i+1)
		node := &demoNode{
			id: id, args: append(args[:len(args):len(args)], "--id", id),
			env: append(os.Environ(), dsnEnv+"="+d.dsn), // not an argument: it may hold a password
			log: filepath.Join(d.logs, id+".log"),
		}
		if err := node.start(); err != nil {
			return fmt.Errorf("start %s: %w", id, err)
		}
		d.nodes = append(d.nodes, node)
		printf(d.out, "%s is process %d\n", id, node.process.PID())
	}
	return d.waitMet(ctx, n)
}

const metSQL = `
SELECT COUNT(*) = ? AND MIN(HEARTBEAT_AT) > MAX(JOINED_AT) FROM QRTZ_NODE
 WHERE APPLICATION = ? AND INSTANCE IS NOT NULL`

// waitMet waits until each node has had a heartbeat, and so a look around, since the last one joined.
func (d *demo) waitMet(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, joinLimit, fmt.Errorf("not all of %d nodes have joined within %s", n, joinLimit))
	defer cancel()
	printf(d.out, "waiting for a heartbeat of each, by which it sees the others …\n")
	return every(ctx, 50*time.Millisecond, func() (bool, error) {
		var met sql.NullBool
		err := d.db.GetContext(ctx, &met, d.prefix.SQL(metSQL), n, demoApp)
		return met.Bool, errors.Join(err, d.unexpectedEnd())
	})
}

// unexpectedEnd is an error if a node has ended that was not stopped.
func (d *demo) unexpectedEnd() error {
	for _, n := range d.nodes {
		if n.process != nil && !n.process.Running() {
			return fmt.Errorf("%s has ended: %w\n%s", n.id, n.process.Wait(), n.logTail())
		}
	}
	return nil
}

// stopNodes lets all nodes drain and waits for them; one that takes too long is killed.
func (d *demo) stopNodes() {
	for _, n := range d.nodes {
		if n.process != nil {
			n.process.Signal(syscall.SIGTERM)
		}
	}
	limit := time.NewTimer(nodeStopLimit)
	defer limit.Stop()
	for _, n := range d.nodes {
		if n.process == nil {
			continue
		}
		select {
		case <-n.process.Done():
		case <-limit.C:
			printf(d.out, "%s did not stop within %s: killed\n", n.id, nodeStopLimit)
			limit.Reset(0)
		}
		n.kill()
	}
}

// start starts the process.
func (n *demoNode) start() error {
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()            // the process has its own
	cmd := exec.Command(n.args[0], n.args[1:]...) //nolint:noctx // it is stopped by signals
	cmd.Env, cmd.Stderr = n.env, log
	process, err := child.Start(cmd)
	if err != nil {
		return err
	}
	n.process = process
	return nil
}

// kill ends the process with SIGKILL, if it still runs, and waits until it is gone.
func (n *demoNode) kill() {
	n.process.Kill()
	n.process = nil
}

// logTail is the end of the node's log.
func (n *demoNode) logTail() string {
	text, err := os.ReadFile(n.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2048):])
}
