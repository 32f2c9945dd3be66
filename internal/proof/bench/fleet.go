package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/qrtz-go/qrtz/internal/servers/child"
)

const (
	// DSNEnv tells a node its database: an argument would show its password, if it had one.
	DSNEnv = "QRTZ_DSN"

	joinLimit  = 30 * time.Second
	leaveLimit = 45 * time.Second // more than a node's own drain takes
)

// fleet is a number of nodes, each a process of its own.
type fleet struct{ nodes []*benchNode }

type benchNode struct {
	*child.Process
	id     string
	out    bytes.Buffer // its summary
	errors bytes.Buffer
}

// startNode starts a process that calls Node with these options.
func (s *site) startNode(o NodeOptions) (*benchNode, error) {
	args := append(s.Node[1:len(s.Node):len(s.Node)], "--id", o.ID, "--workers", strconv.Itoa(o.Workers), "--poll", o.Poll.String(),
		"--from", strconv.FormatInt(o.From.UnixMilli(), 10), "--until", strconv.FormatInt(o.Until.UnixMilli(), 10))
	if o.Asked.Rate > 0 {
		args = append(args, "--ask", strconv.Itoa(o.Asked.Rate))
	}
	if o.Asked.InTx {
		args = append(args, "--in-tx")
	}
	if o.Asked.Client {
		args = append(args, "--client")
	}
	n := &benchNode{id: o.ID}
	cmd := exec.Command(s.Node[0], args...) //nolint:noctx // it is stopped by signals
	cmd.Env = append(os.Environ(), DSNEnv+"="+o.DSN)
	cmd.Stdout, cmd.Stderr = &n.out, &n.errors
	var err error
	if n.Process, err = child.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", n.id, err)
	}
	return n, nil
}

// startNodes starts n nodes and waits until all have joined.
func (s *site) startNodes(ctx context.Context, d *database, n int, o NodeOptions) (*fleet, error) {
	f := &fleet{}
	o.DSN = d.dsn
	for i := range n {
		o.ID = fmt.Sprintf("node-%d", i+1)
		node, err := s.startNode(o)
		if err != nil {
			f.kill()
			return nil, err
		}
		f.nodes = append(f.nodes, node)
	}
	if err := f.joined(ctx, d); err != nil {
		f.kill()
		return nil, err
	}
	return f, nil
}

const joinedSQL = `SELECT COUNT(*) FROM QRTZ_NODE WHERE APPLICATION = ? AND INSTANCE IS NOT NULL`

func (f *fleet) joined(ctx context.Context, d *database) error {
	return until(ctx, joinLimit, func() (bool, error) {
		for _, n := range f.nodes {
			if !n.Running() {
				return false, n.failed(n.Wait())
			}
		}
		var joined int
		err := d.GetContext(ctx, &joined, joinedSQL, benchApp)
		return joined == len(f.nodes), err
	})
}

// until tries every 20 ms until attempt reports true or fails.
func until(ctx context.Context, limit time.Duration, attempt func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if done, err := attempt(); done || err != nil {
			return err
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return fmt.Errorf("not within %s: %w", limit, ctx.Err())
		}
	}
}

func (n *benchNode) failed(err error) error {
	tail := n.errors.Bytes()
	return fmt.Errorf("%s: %w\n%s", n.id, errors.Join(err, errEnded), tail[max(0, len(tail)-2048):])
}

var errEnded = errors.New("the process has ended")

// stop drains the nodes and adds up their summaries.
func (f *fleet) stop() (summary, error) {
	for _, n := range f.nodes {
		n.Signal(syscall.SIGTERM)
	}
	defer f.kill() // one that takes too long
	limit := time.After(leaveLimit)
	total, late := summary{}, newHistogram()
	for _, n := range f.nodes {
		select {
		case <-n.Done():
		case <-limit:
			return total, fmt.Errorf("%s did not stop within %s", n.id, leaveLimit)
		}
		var one summary
		if err := errors.Join(n.Wait(), json.Unmarshal(n.out.Bytes(), &one)); err != nil {
			return total, n.failed(err)
		}
		late.Merge(hdrhistogram.Import(one.Late))
		total.add(one)
	}
	total.Late = late.Export()
	return total, nil
}

func (s *summary) add(one summary) {
	s.Fires, s.Early, s.CPU, s.AllCPU = s.Fires+one.Fires, s.Early+one.Early, s.CPU+one.CPU, s.AllCPU+one.AllCPU
	s.HeapMB, s.ResidentMB, s.PeakMB = max(s.HeapMB, one.HeapMB), max(s.ResidentMB, one.ResidentMB), max(s.PeakMB, one.PeakMB)
	s.Started, s.Committed = merged(s.Started, one.Started), merged(s.Committed, one.Committed)
	if s.First.IsZero() || !one.First.IsZero() && one.First.Before(s.First) {
		s.First = one.First
	}
}

func merged(a, b map[int64]int64) map[int64]int64 {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}

// kill ends what still runs.
func (f *fleet) kill() {
	for _, n := range f.nodes {
		n.Kill()
	}
}
