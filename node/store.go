package node

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// Store reads and writes the nodes of one app. Its writes leave SWITCHED_AT alone, save Switch: the server stamps it when
// a person changes a row. Each is a statement of its own: it holds no lock while this process could
// stop talking. One that meets a locked row fails with the server's lock wait timeout.
type Store struct {
	db  schema.Tables
	app string
}

// NewStore returns the store of app's nodes. The prefix must be valid.
func NewStore(db *sqlx.DB, prefix schema.Prefix, app string) *Store {
	return &Store{db: schema.Tables{DB: db, Prefix: prefix}, app: app}
}

// row is what can be read of a node whatever people write into its columns.
type row struct {
	Now          int64          `db:"NOW_MICROS"`
	AppState     string         `db:"APP_STATE"`
	AppSwitched  sql.NullInt64  `db:"APP_SWITCHED"`
	NodeID       sql.NullString `db:"HOST_IP"`
	HostName     sql.NullString `db:"HOST_NAME"`
	State        sql.NullString `db:"STATE"`
	StoppedByApp sql.NullInt64  `db:"STOPPED_BY_APP"`
	Instance     sql.NullInt64  `db:"INSTANCE"`
	HeartbeatAt  sql.NullInt64  `db:"HEARTBEAT_AT"`
	Switched     sql.NullInt64  `db:"SWITCHED"`
	OffSince     sql.NullInt64  `db:"OFF_SINCE"`
	OffSeenAt    sql.NullInt64  `db:"OFF_SEEN_AT"`
	AppOffSince  sql.NullInt64  `db:"APP_OFF_SINCE"`
	AppOffSeenAt sql.NullInt64  `db:"APP_OFF_SEEN_AT"`
	Handlers     sql.NullString `db:"HANDLERS"`
	ProcessID    sql.NullInt64  `db:"PROCESS_ID"`
	BootID       sql.NullString `db:"BOOT_ID"`
	PIDNamespace sql.NullInt64  `db:"PID_NAMESPACE"`
	ProcessStart sql.NullInt64  `db:"PROCESS_START"`
	BeatApp      sql.NullString `db:"BEAT_APP"`
	BeatNodeID   sql.NullString `db:"BEAT_HOST_IP"`
	Beats        sql.NullInt64  `db:"BEATS"`
	BeatAt       sql.NullInt64  `db:"BEAT_AT"`
}

// readSQL takes no lock. A list of handlers that is too long to be one is left where it is.
const readSQL = `
SELECT ` + schema.NowSQL + ` AS NOW_MICROS, A.STATE AS APP_STATE, CAST(UNIX_TIMESTAMP(A.SWITCHED_AT) * 1000 AS SIGNED) AS APP_SWITCHED,
       N.HOST_IP, N.HOST_NAME, N.STATE, N.STOPPED_BY_APP, N.INSTANCE, N.HEARTBEAT_AT,
       CAST(UNIX_TIMESTAMP(N.SWITCHED_AT) * 1000 AS SIGNED) AS SWITCHED, N.OFF_SINCE, N.OFF_SEEN_AT, N.APP_OFF_SINCE, N.APP_OFF_SEEN_AT,
       CASE WHEN LENGTH(N.HANDLERS) <= 1000000 THEN N.HANDLERS END AS HANDLERS, N.PROCESS_ID, N.BOOT_ID, N.PID_NAMESPACE, N.PROCESS_START,
       H.APPLICATION AS BEAT_APP, H.HOST_IP AS BEAT_HOST_IP, H.BEATS, H.BEAT_AT
  FROM QRTZ_APP A LEFT JOIN QRTZ_NODE N ON N.APPLICATION = ? LEFT JOIN QRTZ_HEARTBEAT H ON H.INSTANCE = N.INSTANCE
 WHERE A.APPLICATION = ? ORDER BY N.HOST_IP`

// Read returns the app's switch and all its nodes. Me, and what the View needs to judge, is for the caller to set.
func (s *Store) Read(ctx context.Context) (View, error) {
	var rows []row
	if err := s.db.Select(ctx, &rows, readSQL, s.app, s.app); err != nil {
		return View{}, fmt.Errorf("read nodes: %w", err)
	}
	if len(rows) == 0 {
		return View{}, fmt.Errorf("read nodes: %sAPP has no row for app %q; it was deleted", s.db.Prefix, s.app)
	}
	v := View{At: time.UnixMicro(rows[0].Now), AppOn: rows[0].AppState == "Y", AppSwitchedAt: fromMillis(rows[0].AppSwitched)}
	for _, r := range rows {
		if r.NodeID.Valid { // else it is an app without nodes
			v.Nodes = append(v.Nodes, r.node(s.app))
		}
	}
	return v, nil
}

func (r *row) node(app string) Node {
	n := Node{
		ID: r.NodeID.String, HostName: r.HostName.String, On: r.State.String == "Y", StoppedByApp: r.StoppedByApp.Int64 != 0,
		Instance: r.Instance.Int64, SwitchedAt: fromMillis(r.Switched),
		OffSince: fromMillis(r.OffSince), OffSeenAt: fromMillis(r.OffSeenAt),
		AppOffSince: fromMillis(r.AppOffSince), AppOffSeenAt: fromMillis(r.AppOffSeenAt), seed: seedOf(r.NodeID.String),
		process: identity{
			bootID: r.BootID.String, namespace: r.PIDNamespace.Int64, pid: r.ProcessID.Int64, start: r.ProcessStart.Int64, known: r.ProcessStart.Valid,
		},
		Heartbeat: fromMillis(r.HeartbeatAt), pulse: pulse{count: r.HeartbeatAt.Int64},
	}
	// Only its own heartbeat counts, not that of a row which a person has copied.
	if r.Beats.Valid && sameID(r.BeatApp.String, app) && sameID(r.BeatNodeID.String, n.ID) {
		n.Heartbeat, n.pulse = fromMillis(r.BeatAt), pulse{count: r.Beats.Int64, row: true}
	}
	// A node of version 1.3, or a row edited by SQL, has no readable list: it handles nothing.
	if json.Unmarshal([]byte(r.Handlers.String), &n.Classes) != nil {
		n.Classes = nil
	}
	slices.Sort(n.Classes)
	return n
}

func fromMillis(ms sql.NullInt64) time.Time {
	if !ms.Valid || ms.Int64 < 1 {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}

const (
	firstBeatSQL = `
INSERT INTO QRTZ_HEARTBEAT (INSTANCE, APPLICATION, HOST_IP, BEATS, BEAT_AT, CLOCK_SKEW) VALUES (?, ?, ?, ?, ` + schema.NowMillisSQL + `, ?)`

	insertSQL = `
INSERT IGNORE INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK) VALUES (?, ?, '', 'Y', 0)`

	takeSQL = `
UPDATE QRTZ_NODE
   SET INSTANCE = ?, HOST_NAME = ?, PROCESS_ID = ?, BOOT_ID = ?, PID_NAMESPACE = ?, PROCESS_START = ?, HANDLERS = ?, VERSION = ?, CLOCK_SKEW = ?,
       JOINED_AT = ` + schema.NowMillisSQL + `, HEARTBEAT_AT = ` + schema.NowMillisSQL + `, TIME_CHECK = ` + schema.NowMillisSQL + `,
       SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND COALESCE(INSTANCE, 0) = ?`

	instanceSQL = `SELECT COALESCE(INSTANCE, 0) FROM QRTZ_NODE WHERE APPLICATION = ? AND HOST_IP = ?`
)

// Take makes instance the holder of a node id whose row holds previous (0 for none, also when there is no
// row yet). A new row starts switched on; an old one keeps its switch. It tells whether it succeeded:
// another process may have been quicker. The heartbeat is there before the node is: a node without one is of a program that
// knows none, or was declared dead.
func (s *Store) Take(ctx context.Context, p process, previous, instance int64) (bool, error) {
	holder, err := s.takeRow(ctx, p, previous, instance)
	if err == nil && holder == instance {
		return true, nil
	}
	_ = s.forgetBeat(ctx, instance) // what stays of it is cleaned by Member.Bury
	if err != nil {
		return false, fmt.Errorf("join as node %q: %w", p.nodeID, err)
	}
	return false, nil
}

func (s *Store) takeRow(ctx context.Context, p process, previous, instance int64) (holder int64, err error) {
	classes, err := json.Marshal(p.classes)
	if err != nil {
		return 0, err
	}
	if err := s.exec(ctx, firstBeatSQL, instance, s.app, p.nodeID, firstBeat, p.skew.Milliseconds()); err != nil {
		return 0, err
	}
	if p.isNew {
		if err := s.exec(ctx, insertSQL, s.app, p.nodeID); err != nil {
			return 0, err
		}
	}
	who := p.identity
	if err := s.exec(ctx, takeSQL, instance, p.hostName, who.pid, nullable(who.bootID, who.known), nullable(who.namespace, who.known),
		nullable(who.start, who.known), classes, p.version, p.skew.Milliseconds(), s.app, p.nodeID, previous); err != nil {
		return 0, err
	}
	return holder, s.db.Get(ctx, &holder, instanceSQL, s.app, p.nodeID)
}

func nullable[T any](v T, valid bool) sql.Null[T] { return sql.Null[T]{V: v, Valid: valid} }

func (s *Store) exec(ctx context.Context, query string, args ...any) error {
	_, err := s.db.Exec(ctx, query, args...)
	return err
}

// firstBeat is the BEATS of an instance that has just joined.
const firstBeat = 1

const beatSQL = `UPDATE QRTZ_HEARTBEAT SET BEATS = ?, BEAT_AT = ` + schema.NowMillisSQL + `, CLOCK_SKEW = ? WHERE INSTANCE = ?`

const seesSQL = `SELECT COUNT(*) FROM QRTZ_HEARTBEAT WHERE INSTANCE = ?`

// Sees tells whether the database holds a heartbeat of an instance. A database without the tables does not.
func (s *Store) Sees(ctx context.Context, instance int64) (bool, error) {
	var n int
	err := s.db.Get(ctx, &n, seesSQL, instance)
	if err != nil && !schema.NoSuchTable(err) {
		return false, fmt.Errorf("look for the heartbeat of this instance: %w", err)
	}
	return n > 0, nil
}

const switchedOnSQL = `
SELECT COUNT(*) FROM QRTZ_NODE N STRAIGHT_JOIN QRTZ_APP A ON A.APPLICATION = N.APPLICATION
 WHERE N.APPLICATION = ? AND N.HOST_IP = ? AND N.INSTANCE = ? AND N.STATE = 'Y' AND A.STATE = 'Y'`

// SwitchedOn tells whether a node is still the instance's, and it and its app are switched on. It locks nothing.
func (s *Store) SwitchedOn(ctx context.Context, who Instance) (bool, error) {
	var n int
	if err := s.db.Get(ctx, &n, switchedOnSQL, s.app, who.NodeID, who.ID); err != nil {
		return false, fmt.Errorf("look at the switches: %w", err)
	}
	return n > 0, nil
}

// Beat writes the heartbeat of an instance: a row that no other process writes. Whether it is there, and the node still the
// instance's, Read tells.
func (s *Store) Beat(ctx context.Context, instance, beats int64, skew time.Duration) error {
	if err := s.exec(ctx, beatSQL, beats, skew.Milliseconds(), instance); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

const showSQL = `
UPDATE QRTZ_NODE
   SET HEARTBEAT_AT = ` + schema.NowMillisSQL + `, TIME_CHECK = ` + schema.NowMillisSQL + `, CLOCK_SKEW = ?, SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND INSTANCE = ?`

// Show writes the heartbeat of an instance where people look for it, and programs that do not know QRTZ_HEARTBEAT.
func (s *Store) Show(ctx context.Context, nodeID string, instance int64, skew time.Duration) error {
	if err := s.exec(ctx, showSQL, skew.Milliseconds(), s.app, nodeID, instance); err != nil {
		return fmt.Errorf("show the heartbeat in QRTZ_NODE: %w", err)
	}
	return nil
}

const (
	sawOffSQL = `
UPDATE QRTZ_NODE
   SET OFF_SINCE = COALESCE(?, OFF_SINCE), OFF_SEEN_AT = COALESCE(?, OFF_SEEN_AT),
       APP_OFF_SINCE = COALESCE(?, APP_OFF_SINCE), APP_OFF_SEEN_AT = COALESCE(?, APP_OFF_SEEN_AT), SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND INSTANCE = ?`
	passedOverSQL = `
UPDATE QRTZ_NODE SET OFF_SINCE = NULL, OFF_SEEN_AT = NULL, APP_OFF_SINCE = NULL, APP_OFF_SEEN_AT = NULL, SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND INSTANCE = ? AND STATE = 'Y'`
)

// SawOff notes that an instance has seen itself, its app, or both off. What is noted stays until PassedOver.
func (s *Store) SawOff(ctx context.Context, nodeID string, instance int64, own, app seenOff) error {
	if _, err := s.db.Exec(ctx, sawOffSQL, orNull(own.since), orNull(own.at), orNull(app.since), orNull(app.at), s.app, nodeID, instance); err != nil {
		return fmt.Errorf("note that the node is off: %w", err)
	}
	return nil
}

func orNull(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// PassedOver notes that an instance has passed over what was due while it was off.
func (s *Store) PassedOver(ctx context.Context, nodeID string, instance int64) error {
	if _, err := s.db.Exec(ctx, passedOverSQL, s.app, nodeID, instance); err != nil {
		return fmt.Errorf("note that the time off has been passed over: %w", err)
	}
	return nil
}

const leaveSQL = `
UPDATE QRTZ_NODE SET INSTANCE = NULL, HEARTBEAT_AT = NULL, SWITCHED_AT = SWITCHED_AT
 WHERE APPLICATION = ? AND HOST_IP = ? AND INSTANCE = ?`

// Leave takes an instance out of the cluster. The row stays, with its switch, for the node's return.
func (s *Store) Leave(ctx context.Context, nodeID string, instance int64) error {
	if err := s.exec(ctx, leaveSQL, s.app, nodeID, instance); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return s.forgetBeat(ctx, instance)
}

const (
	forgetBeatSQL = `DELETE FROM QRTZ_HEARTBEAT WHERE INSTANCE = ?`
	endBeatSQL    = `DELETE FROM QRTZ_HEARTBEAT WHERE INSTANCE = ? AND BEATS = ?`
	beatsSQL      = `SELECT COUNT(*) FROM QRTZ_HEARTBEAT WHERE INSTANCE = ?`
)

func (s *Store) forgetBeat(ctx context.Context, instance int64) error {
	if err := s.exec(ctx, forgetBeatSQL, instance); err != nil {
		return fmt.Errorf("delete the heartbeat of instance %d: %w", instance, err)
	}
	return nil
}

// endBeat deletes the heartbeat of an instance if it is still the one that was seen, and tells whether it is gone. An
// instance without a heartbeat never gets one again: from then on it cannot renew its lease.
func (s *Store) endBeat(ctx context.Context, instance int64, seen pulse) (bool, error) {
	if err := s.exec(ctx, endBeatSQL, instance, seen.count); err != nil {
		return false, fmt.Errorf("delete the heartbeat of instance %d: %w", instance, err)
	}
	var left int
	if err := s.db.Get(ctx, &left, beatsSQL, instance); err != nil {
		return false, fmt.Errorf("look for the heartbeat of instance %d: %w", instance, err)
	}
	return left == 0, nil
}

const (
	burySQL = `
UPDATE QRTZ_NODE SET INSTANCE = NULL, SWITCHED_AT = SWITCHED_AT WHERE APPLICATION = ? AND HOST_IP = ? AND INSTANCE = ?`

	// buryUnlessShownSQL is for a node that has no row in QRTZ_HEARTBEAT.
	buryUnlessShownSQL = burySQL + ` AND COALESCE(HEARTBEAT_AT, 0) = ?`
)

// Bury declares a node dead, unless it has sent a heartbeat since it was read, and tells whether it did. From then on its
// instance can neither claim nor write results; a process that is back must join again. The heartbeat goes first: that one row
// decides between the instance and those who bury it.
func (s *Store) Bury(ctx context.Context, n *Node) (bool, error) {
	query, args := burySQL, []any{s.app, n.ID, n.Instance}
	if n.pulse.row {
		if gone, err := s.endBeat(ctx, n.Instance, n.pulse); !gone || err != nil {
			return false, err
		}
	} else {
		query, args = buryUnlessShownSQL, append(args, n.pulse.count)
	}
	done, err := s.db.Exec(ctx, query, args...)
	if err != nil {
		return false, fmt.Errorf("declare node %q dead: %w", n.ID, err)
	}
	buried, err := done.RowsAffected()
	return err == nil && buried == 1, nil // only what is said of it depends on this
}

// strayBeatsSQL finds heartbeats that no node has. An instance that is about to join has one for a moment; if it is deleted,
// it joins again.
const strayBeatsSQL = `
SELECT H.INSTANCE FROM QRTZ_HEARTBEAT H LEFT JOIN QRTZ_NODE N ON N.APPLICATION = ? AND N.INSTANCE = H.INSTANCE
 WHERE H.APPLICATION = ? AND N.INSTANCE IS NULL
   AND H.BEAT_AT NOT BETWEEN ` + schema.NowMillisSQL + ` - 600000 AND ` + schema.NowMillisSQL + ` + 600000 LIMIT 1000`

// CleanBeats deletes the heartbeats that no node has had for ten minutes.
func (s *Store) CleanBeats(ctx context.Context) error {
	var instances []int64
	if err := s.db.Select(ctx, &instances, strayBeatsSQL, s.app, s.app); err != nil {
		return fmt.Errorf("look for heartbeats without a node: %w", err)
	}
	for _, instance := range instances {
		if err := s.forgetBeat(ctx, instance); err != nil {
			return err
		}
	}
	return nil
}

const oldestTransactionSQL = `
SELECT CONCAT('connection ', TRX_MYSQL_THREAD_ID, ', since ', TRX_STARTED, ', ', TRX_ROWS_LOCKED, ' rows locked')
  FROM information_schema.INNODB_TRX WHERE TRX_ROWS_LOCKED > 0 AND TRX_MYSQL_THREAD_ID <> CONNECTION_ID() ORDER BY TRX_STARTED LIMIT 1`

// oldestTransaction describes the transaction that most probably holds a lock which lasts; empty if the server does not tell.
func (s *Store) oldestTransaction(ctx context.Context) string {
	var oldest string
	if err := s.db.Get(ctx, &oldest, oldestTransactionSQL); err != nil {
		return "" // it takes the PROCESS privilege
	}
	return oldest
}

const (
	readSwitchSQL = `SELECT STATE = 'Y' FROM QRTZ_NODE WHERE APPLICATION = ? AND HOST_IP = ? FOR UPDATE`

	switchSQL = `UPDATE QRTZ_NODE SET STATE = IF(?, 'Y', 'N'), STOPPED_BY_APP = 0 WHERE APPLICATION = ? AND HOST_IP = ?`
)

// Switch switches a node on or off in the caller's transaction, and tells whether it was on before. To switch a node
// by its id takes it from its app's hands: one that the app has stopped, and that is switched off, stays off when the app is
// on again. The server stamps SWITCHED_AT if anything changes.
func (s *Store) Switch(ctx context.Context, tx *sqlx.Tx, id string, on bool) (was bool, err error) {
	if err := s.db.On(tx).Get(ctx, &was, readSwitchSQL, s.app, id); err != nil {
		return false, fmt.Errorf("switch node %q: %w", id, err)
	}
	if _, err := s.db.On(tx).Exec(ctx, switchSQL, on, s.app, id); err != nil {
		return was, fmt.Errorf("switch node %q: %w", id, err)
	}
	return was, nil
}

const (
	stopNodeSQL = `
UPDATE QRTZ_NODE N JOIN QRTZ_APP A ON A.APPLICATION = ? SET N.STATE = 'N', N.STOPPED_BY_APP = 1, N.SWITCHED_AT = N.SWITCHED_AT
 WHERE N.APPLICATION = ? AND N.HOST_IP = ? AND N.STATE = 'Y' AND A.STATE = 'N'`
	startNodeSQL = `
UPDATE QRTZ_NODE N JOIN QRTZ_APP A ON A.APPLICATION = ? SET N.STATE = 'Y', N.STOPPED_BY_APP = 0, N.SWITCHED_AT = N.SWITCHED_AT
 WHERE N.APPLICATION = ? AND N.HOST_IP = ? AND N.STATE = 'N' AND N.STOPPED_BY_APP <> 0 AND A.STATE = 'Y'`
	forgetStopSQL = `
UPDATE QRTZ_NODE N JOIN QRTZ_APP A ON A.APPLICATION = ? SET N.STOPPED_BY_APP = 0, N.SWITCHED_AT = N.SWITCHED_AT
 WHERE N.APPLICATION = ? AND N.HOST_IP = ? AND N.STATE = 'Y' AND N.STOPPED_BY_APP <> 0 AND A.STATE = 'Y'`
)

// SyncSwitches makes the nodes' switches say what the app's does: an app that is off stops its nodes and
// marks them; an app that is on starts those so marked. A node that an operator stopped stays stopped. It writes only nodes
// that differ in the view, each by itself; a locked one is left as it is and named in the error.
func (s *Store) SyncSwitches(ctx context.Context, v *View) error {
	var failed []error
	for i := range v.Nodes {
		n := &v.Nodes[i]
		query := n.switchSQL(v.AppOn)
		if query == "" {
			continue
		}
		if err := s.exec(ctx, query, s.app, s.app, n.ID); err != nil {
			failed = append(failed, fmt.Errorf("bring the switch of node %q in line with its app's: %w", n.ID, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// switchSQL is what brings a node's switch in line with its app's; empty if it is.
func (n *Node) switchSQL(appOn bool) string {
	switch {
	case n.On && !appOn:
		return stopNodeSQL
	case !n.On && n.StoppedByApp && appOn:
		return startNodeSQL
	case n.On && n.StoppedByApp:
		return forgetStopSQL
	default:
		return ""
	}
}
