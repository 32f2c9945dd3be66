package admin

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
)

// App is a row of QRTZ_APP, and what belongs to it.
type App struct {
	Name       string `db:"APPLICATION" json:"app"`
	State      string `db:"STATE" json:"state"`
	SwitchedAt Time   `db:"SWITCHED_MS" json:"switched_at"`
	CheckedAt  Time   `db:"TIME_PRE" json:"checked_at"` // the last pass of the misfire handler
	Nodes      int    `db:"NODES" json:"nodes"`         // in the cluster
	Jobs       int    `db:"JOBS" json:"jobs"`
}

const (
	appsSQL = `
SELECT A.APPLICATION, A.STATE, CAST(UNIX_TIMESTAMP(A.SWITCHED_AT) * 1000 AS SIGNED) AS SWITCHED_MS, A.TIME_PRE,
       (SELECT COUNT(*) FROM QRTZ_NODE N WHERE N.APPLICATION = A.APPLICATION AND N.INSTANCE IS NOT NULL) AS NODES,
       (SELECT COUNT(*) FROM QRTZ_JOB J WHERE J.APPLICATION = A.APPLICATION) AS JOBS
  FROM QRTZ_APP A`
)

// most is how many apps or nodes are listed.
const most = 10_000

// Apps lists all apps.
func (s *Store) Apps(ctx context.Context) ([]App, error) {
	return list[App](ctx, s, "apps", appsSQL, where{}, " ORDER BY A.APPLICATION", most)
}

// CheckApp returns an error that names the apps there are if there is none of a name.
func (s *Store) CheckApp(ctx context.Context, name string) error {
	apps, err := s.Apps(ctx)
	if err != nil {
		return err
	}
	names := make([]string, len(apps))
	for i, a := range apps {
		if a.Name == name {
			return nil
		}
		names[i] = a.Name
	}
	return NotFoundError{fmt.Sprintf("app %q; the apps are: %s", name, strings.Join(names, ", "))}
}

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
	Running      int     `db:"RUNNING" json:"running"` // runs that have a row
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
	nodesSQL = `
SELECT N.APPLICATION, N.HOST_IP, N.HOST_NAME, N.STATE, N.STOPPED_BY_APP <> 0 AS STOPPED_BY_APP, N.INSTANCE IS NOT NULL AS JOINED, N.INSTANCE, N.JOINED_AT,
       COALESCE(H.BEAT_AT, N.HEARTBEAT_AT) AS HEARTBEAT_AT, ` + nowSQL + ` - COALESCE(H.BEAT_AT, N.HEARTBEAT_AT) AS AGE,
       N.PROCESS_ID, N.VERSION, COALESCE(H.CLOCK_SKEW, N.CLOCK_SKEW) AS CLOCK_SKEW, N.HANDLERS,
       (SELECT COUNT(*) FROM QRTZ_RUN R
         WHERE R.APPLICATION = N.APPLICATION AND R.STATE = 'RUNNING' AND R.INSTANCE = N.INSTANCE) AS RUNNING
  FROM QRTZ_NODE N LEFT JOIN QRTZ_HEARTBEAT H ON H.INSTANCE = N.INSTANCE`
)

// Nodes lists the nodes of an app, or of all.
func (s *Store) Nodes(ctx context.Context, app string) ([]Node, error) {
	var w where
	w.and("N.APPLICATION = ?", app)
	return list[Node](ctx, s, "nodes", nodesSQL, w, " ORDER BY N.APPLICATION, N.HOST_IP", most)
}

// Node finds a node by its id. If several apps have one of that name, app must say which.
func (s *Store) Node(ctx context.Context, app, id string) (Node, error) {
	var w where
	w.and("N.APPLICATION = ?", app)
	w.and("N.HOST_IP = ?", id)
	nodes, err := list[Node](ctx, s, "nodes", nodesSQL, w, "", most)
	if err != nil {
		return Node{}, err
	}
	switch len(nodes) {
	case 0:
		return Node{}, NotFoundError{fmt.Sprintf("node %q", id)}
	case 1:
		return nodes[0], nil
	}
	return Node{}, fmt.Errorf("the apps %q and %q both have a node %q: say which with --app", nodes[0].App, nodes[1].App, id)
}
