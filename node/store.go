package node

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// Store reads and writes the nodes of one app. Its writes leave SWITCHED_AT alone, which the server
// stamps when anybody else changes a row.
type Store struct {
	db     *sqlx.DB
	prefix schema.Prefix
	app    string
}

// NewStore returns the store of app's nodes. The prefix must be valid.
func NewStore(db *sqlx.DB, prefix schema.Prefix, app string) *Store {
	return &Store{db: db, prefix: prefix, app: app}
}

type row struct {
	Now          int64          `db:"NOW_MICROS"`
	AppState     string         `db:"APP_STATE"`
	AppSwitched  sql.NullInt64  `db:"APP_SWITCHED"`
	HostIP       sql.NullString `db:"HOST_IP"`
	HostName     sql.NullString `db:"HOST_NAME"`
	State        sql.NullString `db:"STATE"`
	StoppedByApp sql.NullBool   `db:"STOPPED_BY_APP"`
	Instance     sql.NullInt64  `db:"INSTANCE"`
	Heartbeat    sql.NullInt64  `db:"HEARTBEAT_AT"`
	Switched     sql.NullInt64  `db:"SWITCHED"`
	OffSince     sql.NullInt64  `db:"OFF_SINCE"`
	OffSeenAt    sql.NullInt64  `db:"OFF_SEEN_AT"`
	AppOffSince  sql.NullInt64  `db:"APP_OFF_SINCE"`
	AppOffSeenAt sql.NullInt64  `db:"APP_OFF_SEEN_AT"`
	Handlers     sql.NullString `db:"HANDLERS"`
	ProcessID    sql.NullInt64  `db:"PROCESS_ID"`
}

const readSQL = `
SELECT ` + schema.NowSQL + ` AS NOW_MICROS, A.STATE AS APP_STATE, CAST(UNIX_TIMESTAMP(A.SWITCHED_AT) * 1000 AS SIGNED) AS APP_SWITCHED,
       N.HOST_IP, N.HOST_NAME, N.STATE, N.STOPPED_BY_APP, N.INSTANCE, N.HEARTBEAT_AT,
       CAST(UNIX_TIMESTAMP(N.SWITCHED_AT) * 1000 AS SIGNED) AS SWITCHED, N.OFF_SINCE, N.OFF_SEEN_AT, N.APP_OFF_SINCE, N.APP_OFF_SEEN_AT,
       N.HANDLERS, N.PROCESS_ID
  FROM QRTZ_APP A LEFT JOIN QRTZ_NODE N ON N.APPLICATION = ?
 WHERE A.APPLICATION = ? ORDER BY N.HOST_IP`

// Read returns the app's switch and all its nodes. Me, and what the View needs to judge, is for the caller to set.
func (s *Store) Read(ctx context.Context) (View, error) {
	var rows []row
	if err := s.db.SelectContext(ctx, &rows, s.prefix.SQL(readSQL), s.app, s.app); err != nil {
		return View{}, fmt.Errorf("read nodes: %w", err)
	}
	if len(rows) == 0 {
		return View{}, fmt.Errorf("read nodes: %sAPP has no row for app %q; somebody deleted it", s.prefix, s.app)
	}
	v := View{At: time.UnixMicro(rows[0].Now), AppOn: rows[0].AppState == "Y", AppSwitchedAt: fromMillis(rows[0].AppSwitched)}
	for _, r := range rows {
		if !r.HostIP.Valid {
			continue // an app without nodes
		}
		n := Node{
			HostIP: r.HostIP.String, HostName: r.HostName.String, On: r.State.String == "Y", StoppedByApp: r.StoppedByApp.Bool,
			Instance: r.Instance.Int64, Heartbeat: fromMillis(r.Heartbeat), SwitchedAt: fromMillis(r.Switched),
			OffSince: fromMillis(r.OffSince), OffSeenAt: fromMillis(r.OffSeenAt),
			AppOffSince: fromMillis(r.AppOffSince), AppOffSeenAt: fromMillis(r.AppOffSeenAt), ProcessID: int(r.ProcessID.Int64), seed: seedOf(r.HostIP.String),
		}
		// A node of version 1.3, or a row edited by hand, has no readable list: it handles nothing.
		if json.Unmarshal([]byte(r.Handlers.String), &n.Classes) == nil {
			slices.Sort(n.Classes)
		}
		v.Nodes = append(v.Nodes, n)
	}
	return v, nil
}

func fromMillis(ms sql.NullInt64) time.Time {
	if !ms.Valid || ms.Int64 < 1 {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64)
}

const (
	insertSQL = `
INSERT IGNORE INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK) VALUES (?, ?, '', 'Y', 0)`

	takeSQL = `
UPDATE QRTZ_NODE
   SET INSTANCE = ?, HOST_NAME = ?, PROCESS_ID = ?, HANDLERS = ?, VERSION = ?, CLOCK_SKEW = ?,
       JOINED_AT = ` + schema.NowMillisSQL + `, HEARTBEAT_AT = ` + schema.NowMillisSQL + `, TIME_CHECK = ` + schema.NowMillisSQL + `,
       SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND COALESCE(INSTANCE, 0) = ?`

	instanceSQL = `SELECT COALESCE(INSTANCE, 0) FROM QRTZ_NODE WHERE APPLICATION = ? AND HOST_IP = ?`
)

// Take makes instance the holder of a node id whose row holds previous (0 for none, also when there is no
// row yet). A new row starts switched on; an old one keeps its switch. It tells whether it succeeded:
// another process may have been quicker.
func (s *Store) Take(ctx context.Context, p process, previous, instance int64) (bool, error) {
	classes, err := json.Marshal(p.classes)
	if err != nil {
		return false, fmt.Errorf("join: %w", err)
	}
	var holder int64
	err = schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, s.prefix.SQL(insertSQL), s.app, p.hostIP); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.prefix.SQL(takeSQL), instance, p.hostName, p.processID, classes, p.version,
			p.skew.Milliseconds(), s.app, p.hostIP, previous); err != nil {
			return err
		}
		return tx.GetContext(ctx, &holder, s.prefix.SQL(instanceSQL), s.app, p.hostIP)
	})
	if err != nil {
		return false, fmt.Errorf("join as node %q: %w", p.hostIP, err)
	}
	return holder == instance, nil
}

const beatSQL = `
UPDATE QRTZ_NODE
   SET HEARTBEAT_AT = ` + schema.NowMillisSQL + `, TIME_CHECK = ` + schema.NowMillisSQL + `, CLOCK_SKEW = ?, SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND INSTANCE = ?`

// Beat writes the heartbeat of an instance. Whether the row is still the instance's, Read tells.
func (s *Store) Beat(ctx context.Context, hostIP string, instance int64, skew time.Duration) error {
	_, err := schema.Exec(ctx, s.db, s.prefix.SQL(beatSQL), skew.Milliseconds(), s.app, hostIP, instance)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

const (
	sawOffSQL = `
UPDATE QRTZ_NODE
   SET OFF_SINCE = COALESCE(?, OFF_SINCE), OFF_SEEN_AT = COALESCE(?, OFF_SEEN_AT),
       APP_OFF_SINCE = COALESCE(?, APP_OFF_SINCE), APP_OFF_SEEN_AT = COALESCE(?, APP_OFF_SEEN_AT), SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND INSTANCE = ?`
	resumedSQL = `
UPDATE QRTZ_NODE SET OFF_SINCE = NULL, OFF_SEEN_AT = NULL, APP_OFF_SINCE = NULL, APP_OFF_SEEN_AT = NULL, SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND INSTANCE = ? AND STATE = 'Y'`
)

// SawOff notes that an instance has seen itself, its app, or both off. What is noted stays until Resumed.
func (s *Store) SawOff(ctx context.Context, hostIP string, instance int64, own, app seenOff) error {
	if _, err := schema.Exec(ctx, s.db, s.prefix.SQL(sawOffSQL),
		orNull(own.since), orNull(own.at), orNull(app.since), orNull(app.at), s.app, hostIP, instance); err != nil {
		return fmt.Errorf("note that the node is off: %w", err)
	}
	return nil
}

func orNull(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// Resumed notes that an instance has passed over what was due while it was off.
func (s *Store) Resumed(ctx context.Context, hostIP string, instance int64) error {
	if _, err := schema.Exec(ctx, s.db, s.prefix.SQL(resumedSQL), s.app, hostIP, instance); err != nil {
		return fmt.Errorf("resume node: %w", err)
	}
	return nil
}

const leaveSQL = `
UPDATE QRTZ_NODE SET INSTANCE = NULL, HEARTBEAT_AT = NULL, SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND INSTANCE = ?`

// Leave takes an instance out of the cluster. The row stays, with its switch, for the node's return.
func (s *Store) Leave(ctx context.Context, hostIP string, instance int64) error {
	if _, err := schema.Exec(ctx, s.db, s.prefix.SQL(leaveSQL), s.app, hostIP, instance); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

const burySQL = `
UPDATE QRTZ_NODE SET INSTANCE = NULL, SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND INSTANCE = ? AND HEARTBEAT_AT <= ?`

// Bury declares the nodes dead whose heartbeat is not after deadline, and returns those that it did not find
// alive after all. From then on their instances can neither claim nor write results; a process that is back
// must join anew.
func (s *Store) Bury(ctx context.Context, deadline time.Time) ([]Node, error) {
	v, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	var dead []Node
	for _, n := range v.Nodes {
		if n.Instance == 0 || n.Heartbeat.After(deadline) {
			continue
		}
		done, err := schema.Exec(ctx, s.db, s.prefix.SQL(burySQL), s.app, n.HostIP, n.Instance, deadline.UnixMilli())
		if err != nil {
			return dead, fmt.Errorf("declare node %q dead: %w", n.HostIP, err)
		}
		if buried, err := done.RowsAffected(); err == nil && buried == 1 { // only what is said of it depends on this
			dead = append(dead, n)
		}
	}
	return dead, nil
}

const (
	stopNodesSQL = `
UPDATE QRTZ_NODE N JOIN QRTZ_APP A ON A.APPLICATION = ? SET N.STATE = 'N', N.STOPPED_BY_APP = 1, N.SWITCHED_AT = N.SWITCHED_AT
 WHERE N.APPLICATION = ? AND N.STATE = 'Y' AND A.STATE = 'N'`
	startNodesSQL = `
UPDATE QRTZ_NODE N JOIN QRTZ_APP A ON A.APPLICATION = ?
   SET N.STATE = 'Y', N.STOPPED_BY_APP = 0, N.SWITCHED_AT = N.SWITCHED_AT
 WHERE N.APPLICATION = ? AND N.STATE = 'N' AND N.STOPPED_BY_APP = 1 AND A.STATE = 'Y'`
	forgetStopSQL = `
UPDATE QRTZ_NODE SET STOPPED_BY_APP = 0, SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND STATE = 'Y' AND STOPPED_BY_APP = 1`
)

// SyncSwitches makes the nodes' switches say what the app's does: an app that is off stops its nodes and
// marks them; an app that is on starts those so marked. A node that an operator stopped stays stopped.
func (s *Store) SyncSwitches(ctx context.Context) error {
	err := schema.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, s.prefix.SQL(stopNodesSQL), s.app, s.app); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.prefix.SQL(startNodesSQL), s.app, s.app); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.prefix.SQL(forgetStopSQL), s.app)
		return err
	})
	if err != nil {
		return fmt.Errorf("sync switches: %w", err)
	}
	return nil
}
