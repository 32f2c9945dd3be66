package node

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/schema"
)

// Record is a row of QRTZ_NODE as it is listed.
type Record struct {
	App          string      `db:"APPLICATION" json:"app"`
	ID           string      `db:"HOST_IP" json:"id"`
	HostName     string      `db:"HOST_NAME" json:"host_name"`
	State        string      `db:"STATE" json:"state"`
	StoppedByApp bool        `db:"STOPPED_BY_APP" json:"stopped_by_app"`
	Joined       bool        `db:"JOINED" json:"joined"` // in the cluster: neither left nor declared dead
	Instance     *int64      `db:"INSTANCE" json:"instance"`
	JoinedAt     schema.Time `db:"JOINED_AT" json:"joined_at"`
	HeartbeatAt  schema.Time `db:"HEARTBEAT_AT" json:"heartbeat_at"`
	HeartbeatAge *int64      `db:"AGE" json:"heartbeat_age_ms"`
	Process      *int64      `db:"PROCESS_ID" json:"process"`
	Version      *string     `db:"VERSION" json:"version"`
	ClockSkew    *int64      `db:"CLOCK_SKEW" json:"clock_skew_ms"`
	Classes      classList   `db:"HANDLERS" json:"classes"`
	Running      int         `db:"-" json:"running"` // runs that have a row
}

// classList are the classes that a node has handlers for. A node of version 1.3 says nothing of them.
type classList []string

// Scan reads a column.
func (c *classList) Scan(value any) error {
	var text sql.NullString
	if err := text.Scan(value); err != nil {
		return fmt.Errorf("read classes: %w", err)
	}
	if json.Unmarshal([]byte(text.String), (*[]string)(c)) != nil || *c == nil {
		*c = classList{}
	}
	return nil
}

const (
	listColumns = `
SELECT N.APPLICATION, N.HOST_IP, N.HOST_NAME, N.STATE, N.STOPPED_BY_APP <> 0 AS STOPPED_BY_APP, N.INSTANCE IS NOT NULL AS JOINED, N.INSTANCE, N.JOINED_AT,
       COALESCE(H.BEAT_AT, N.HEARTBEAT_AT) AS HEARTBEAT_AT, ` + schema.NowMillisSQL + ` - COALESCE(H.BEAT_AT, N.HEARTBEAT_AT) AS AGE,
       N.PROCESS_ID, N.VERSION, COALESCE(H.CLOCK_SKEW, N.CLOCK_SKEW) AS CLOCK_SKEW,
       CASE WHEN LENGTH(N.HANDLERS) <= 1000000 THEN N.HANDLERS END AS HANDLERS
  FROM QRTZ_NODE N LEFT JOIN QRTZ_HEARTBEAT H ON H.INSTANCE = N.INSTANCE`

	listSQL      = listColumns + ` ORDER BY N.APPLICATION, N.HOST_IP LIMIT ?`
	listOfSQL    = listColumns + ` WHERE N.APPLICATION = ? ORDER BY N.HOST_IP LIMIT ?`
	listNamedSQL = listColumns + ` WHERE N.HOST_IP = ? ORDER BY N.APPLICATION LIMIT ?`
	findSQL      = listColumns + ` WHERE N.APPLICATION = ? AND N.HOST_IP = ? LIMIT ?`

	// An app has no more runs that are RUNNING than its nodes have workers.
	runningSQL = `
SELECT INSTANCE, COUNT(*) AS RUNS FROM (
  SELECT INSTANCE FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE) WHERE APPLICATION = ? AND STATE = 'RUNNING' AND INSTANCE IS NOT NULL LIMIT ?) R
 GROUP BY INSTANCE`
	runningOnSQL = `SELECT 1 FROM QRTZ_RUN FORCE INDEX (QRTZ_RUN_STATE) WHERE APPLICATION = ? AND STATE = 'RUNNING' AND INSTANCE = ?`

	handlersSQL = `
SELECT CASE WHEN LENGTH(N.HANDLERS) <= 1000000 THEN N.HANDLERS END AS HANDLERS FROM QRTZ_NODE N LEFT JOIN QRTZ_HEARTBEAT H ON H.INSTANCE = N.INSTANCE
 WHERE N.APPLICATION = ? AND N.INSTANCE IS NOT NULL AND COALESCE(H.BEAT_AT, N.HEARTBEAT_AT, ` + schema.NowMillisSQL + `) > ` + schema.NowMillisSQL + ` - ?`
)

const (
	mostListed  = 10_000  // nodes
	mostRunning = 100_000 // RUNNING runs of an app that are counted by node
)

// List lists the nodes of an app, or of all if app is empty.
func List(ctx context.Context, on schema.On, app string) ([]Record, error) {
	q := schema.Query{Text: listSQL, Args: []any{mostListed}}
	if app != "" {
		q = schema.Query{Text: listOfSQL, Args: []any{app, mostListed}}
	}
	nodes, err := schema.RowsOf[Record](ctx, on, q)
	if err == nil {
		err = countRunning(ctx, on, nodes)
	}
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	if nodes == nil {
		nodes = []Record{} // which is [] in JSON
	}
	return nodes, nil
}

// countRunning sets how many runs the nodes have that are RUNNING.
func countRunning(ctx context.Context, on schema.On, nodes []Record) error {
	counts := map[int64]int{}
	for i, n := range nodes {
		if i > 0 && n.App == nodes[i-1].App {
			continue
		}
		rows, err := schema.RowsOf[struct {
			Instance int64 `db:"INSTANCE"`
			Runs     int   `db:"RUNS"`
		}](ctx, on, schema.Query{Text: runningSQL, Args: []any{n.App, mostRunning}})
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

// Find finds a node by its id. If several apps have one of that name, app must say which.
func Find(ctx context.Context, on schema.On, app, id string) (Record, error) {
	q := schema.Query{Text: listNamedSQL, Args: []any{id, 2}}
	if app != "" {
		q = schema.Query{Text: findSQL, Args: []any{app, id, 2}}
	}
	nodes, err := schema.RowsOf[Record](ctx, on, q)
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("find node %q: %w", id, err)
	case len(nodes) == 0:
		return Record{}, schema.NotFoundError{What: fmt.Sprintf("node %q", id)}
	case len(nodes) > 1:
		return Record{}, fmt.Errorf("the apps %q and %q both have a node %q: say which with --app", nodes[0].App, nodes[1].App, id)
	}
	n := nodes[0]
	if n.Instance == nil {
		return n, nil
	}
	n.Running, err = schema.CountUpTo(ctx, on, mostRunning, schema.Query{Text: runningOnSQL, Args: []any{n.App, *n.Instance}})
	if err != nil {
		return Record{}, fmt.Errorf("count the runs of node %q: %w", id, err)
	}
	return n, nil
}

// NoHandler is why rows of a class are stuck that no live node handles.
const NoHandler = "no live node has a handler for its class"

// LongSilence is how old the heartbeat of a node may be before its classes have no handler, for a reader who does not know its
// NodeTimeout.
const LongSilence = 2 * time.Minute

// Handled knows, by app, the classes that live nodes handle, on or off. It reads each app once. Who has not watched a node can
// only go by the time of its last heartbeat: one that has just died still counts.
type Handled struct {
	on      schema.On
	timeout time.Duration
	apps    map[string]map[string]bool
}

// NewHandled returns one that has read nothing yet. A node whose last heartbeat is older than timeout does not count.
func NewHandled(on schema.On, timeout time.Duration) *Handled {
	return &Handled{on, timeout, map[string]map[string]bool{}}
}

// WhyNot is NoHandler if no live node of an app handles a class, else empty.
func (h *Handled) WhyNot(ctx context.Context, app, class string) (string, error) {
	classes, ok := h.apps[app]
	if !ok {
		lists, err := schema.RowsOf[classList](ctx, h.on, schema.Query{Text: handlersSQL, Args: []any{app, h.timeout.Milliseconds()}})
		if err != nil {
			return "", fmt.Errorf("read which classes have a handler: %w", err)
		}
		classes = map[string]bool{}
		for _, c := range slices.Concat(lists...) {
			classes[c] = true
		}
		h.apps[app] = classes
	}
	if classes[class] {
		return "", nil
	}
	return NoHandler, nil
}
