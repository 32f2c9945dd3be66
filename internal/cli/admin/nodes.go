package admin

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/qrtz-go/qrtz/schema"
)

// Node is a row of QRTZ_NODE.
type Node struct {
	App          string  `db:"APPLICATION" json:"app"`
	ID           string  `db:"HOST_IP" json:"id"`
	HostName     string  `db:"HOST_NAME" json:"host_name"`
	State        string  `db:"STATE" json:"state"`
	StoppedByApp bool    `db:"STOPPED_BY_APP" json:"stopped_by_app"`
	Joined       bool    `db:"JOINED" json:"joined"` // in the cluster: neither left nor declared dead
	Instance     *int64  `db:"INSTANCE" json:"instance"`
	JoinedAt     Time    `db:"JOINED_AT" json:"joined_at"`
	HeartbeatAt  Time    `db:"HEARTBEAT_AT" json:"heartbeat_at"`
	HeartbeatAge *int64  `db:"AGE" json:"heartbeat_age_ms"`
	Process      *int64  `db:"PROCESS_ID" json:"process"`
	Version      *string `db:"VERSION" json:"version"`
	ClockSkew    *int64  `db:"CLOCK_SKEW" json:"clock_skew_ms"`
	Classes      classes `db:"HANDLERS" json:"classes"`
	Running      int     `db:"-" json:"running"` // runs that have a row
}

// classes are those that a node has handlers for. A node of version 1.3 says nothing of them.
type classes []string

// Scan reads a column.
func (c *classes) Scan(value any) error {
	var text sql.NullString
	if err := text.Scan(value); err != nil {
		return fmt.Errorf("read classes: %w", err)
	}
	if json.Unmarshal([]byte(text.String), c) != nil {
		*c = classes{}
	}
	return nil
}

const (
	nodeColumns = `
SELECT N.APPLICATION, N.HOST_IP, N.HOST_NAME, N.STATE, N.STOPPED_BY_APP <> 0 AS STOPPED_BY_APP, N.INSTANCE IS NOT NULL AS JOINED, N.INSTANCE, N.JOINED_AT,
       COALESCE(H.BEAT_AT, N.HEARTBEAT_AT) AS HEARTBEAT_AT, ` + schema.NowMillisSQL + ` - COALESCE(H.BEAT_AT, N.HEARTBEAT_AT) AS AGE,
       N.PROCESS_ID, N.VERSION, COALESCE(H.CLOCK_SKEW, N.CLOCK_SKEW) AS CLOCK_SKEW, N.HANDLERS
  FROM QRTZ_NODE N LEFT JOIN QRTZ_HEARTBEAT H ON H.INSTANCE = N.INSTANCE`

	nodesSQL      = nodeColumns + ` ORDER BY N.APPLICATION, N.HOST_IP LIMIT ?`
	nodesOfSQL    = nodeColumns + ` WHERE N.APPLICATION = ? ORDER BY N.HOST_IP LIMIT ?`
	nodesNamedSQL = nodeColumns + ` WHERE N.HOST_IP = ? ORDER BY N.APPLICATION LIMIT ?`
	nodeNamedSQL  = nodeColumns + ` WHERE N.APPLICATION = ? AND N.HOST_IP = ? LIMIT ?`

	// An app has no more runs that are RUNNING than its nodes have workers.
	runningSQL = `
SELECT INSTANCE, COUNT(*) AS RUNS FROM (
  SELECT INSTANCE FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE) WHERE APPLICATION = ? AND STATE = 'RUNNING' AND INSTANCE IS NOT NULL LIMIT ?) R
 GROUP BY INSTANCE`
	runningOnSQL = `SELECT 1 FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE) WHERE APPLICATION = ? AND STATE = 'RUNNING' AND INSTANCE = ?`
)

// mostRunning is how many RUNNING runs of an app are counted by node.
const mostRunning = 100_000

// Nodes lists the nodes of an app, or of all.
func (s *Store) Nodes(ctx context.Context, app string) ([]Node, error) {
	q := query{nodesSQL, []any{most}}
	if app != "" {
		q = query{nodesOfSQL, []any{app, most}}
	}
	nodes, err := rowsOf[Node](ctx, s, q)
	if err == nil {
		err = s.countRunning(ctx, nodes)
	}
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if nodes == nil {
		nodes = []Node{} // which is [] in JSON
	}
	return nodes, nil
}

// countRunning sets how many runs the nodes have that are RUNNING.
func (s *Store) countRunning(ctx context.Context, nodes []Node) error {
	counts := map[int64]int{}
	for i, n := range nodes {
		if i > 0 && n.App == nodes[i-1].App {
			continue
		}
		rows, err := rowsOf[struct {
			Instance int64 `db:"INSTANCE"`
			Runs     int   `db:"RUNS"`
		}](ctx, s, query{runningSQL, []any{n.App, mostRunning}})
		if err != nil {
			return err
		}
		for _, r := range rows {
			counts[r.Instance] = r.Runs
		}
	}
	for i := range nodes {
		if nodes[i].Instance != nil {
			nodes[i].Running = counts[*nodes[i].Instance]
		}
	}
	return nil
}

// Node finds a node by its id. If several apps have one of that name, app must say which.
func (s *Store) Node(ctx context.Context, app, id string) (Node, error) {
	q := query{nodesNamedSQL, []any{id, 2}}
	if app != "" {
		q = query{nodeNamedSQL, []any{app, id, 2}}
	}
	nodes, err := rowsOf[Node](ctx, s, q)
	switch {
	case err != nil:
		return Node{}, fmt.Errorf("find node %q: %w", id, err)
	case len(nodes) == 0:
		return Node{}, NotFoundError{fmt.Sprintf("node %q", id)}
	case len(nodes) > 1:
		return Node{}, fmt.Errorf("the apps %q and %q both have a node %q: say which with --app", nodes[0].App, nodes[1].App, id)
	}
	n := nodes[0]
	if n.Instance == nil {
		return n, nil
	}
	q = query{runningOnSQL, []any{n.App, *n.Instance}}
	err = s.db.GetContext(ctx, &n.Running, s.prefix.SQL("SELECT COUNT(*) FROM ("+q.text+" LIMIT ?) C"), append(q.args, mostRunning)...)
	if err != nil {
		return Node{}, fmt.Errorf("count the runs of node %q: %w", id, err)
	}
	return n, nil
}
